import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel


def connect(*nodes):
    """Returns a client of one server, or of a cluster. Of a cluster, name some nodes as
    (host, port): the client follows the leader."""
    options = {"protocol": 2, "decode_responses": True, "socket_timeout": 1, "retry": Retry(NoBackoff(), 1)}
    if len(nodes) == 1:
        return redis.Redis(*nodes[0], **options)
    asking = {"socket_timeout": 0.5, "retry": Retry(NoBackoff(), 0)}  # by default a dead node takes seconds
    return Sentinel(nodes, sentinel_kwargs=asking).master_for("headgate", **options)
