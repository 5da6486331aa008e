// A page that was opened as a file may not start a worker, and the search runs in one.
// There it runs in a hidden frame of the page instead; on a web server nothing changes.
if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source === inside) this.told(event.data);
      });
      const place = inside.document;
      place.open();
      place.write("<!doctype html><body></body>");
      place.close();
      // The worker answers with postMessage(data), which a frame would send to itself.
      inside.postMessage = (data) => this.told(data);
      const script = place.createElement("script");
      script.src = url;
      script.onload = () => {
        const kept = this.waiting;
        this.waiting = null;
        kept.forEach((data) => this.postMessage(data));
      };
      place.body.append(script);
    }
    told(data) {
      const event = new MessageEvent("message", { data });
      if (this.onmessage) this.onmessage(event);
      this.dispatchEvent(event);
    }
    postMessage(data) {
      if (this.waiting) {
        this.waiting.push(data);
        return;
      }
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {
      this.frame.remove();
    }
  }
  window.Worker = FrameWorker;
  // By this name the search tells that it runs in a frame.
  window.IFrameWorker = FrameWorker;
}
