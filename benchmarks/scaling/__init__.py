"""Growth to a million streams on real components, with the model's time slept and not computed.

``python -m benchmarks.scaling`` prints the figures: `costs` measures what the model costs, `slept`
is ``larc serve`` with a model that sleeps as long, `stored` fills a PostgreSQL, `measures` puts
load on 1, 2, 4 and 8 workers and looks at what the database does meanwhile.
"""
