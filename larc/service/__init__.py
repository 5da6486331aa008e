"""A live service: ask now, label later, learn exactly once.

A client needs ``httpx``; the server needs the extra ``serve``.
"""

from larc.service.client import AsyncClient, Client, Reply, ServiceError

__all__ = ["AsyncClient", "Client", "Reply", "ServiceError"]
