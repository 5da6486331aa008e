"""What is looked for every second is not looked for among all streams."""

from contextlib import closing

import sqlalchemy as sa

from benchmarks.scaling.stored import fill
from larc.service.store.database import open_database
from larc.service.store.reading import waiting_events
from larc.service.store.results import behind
from larc.service.store.schema import SHARDS, stream

COUNT = 5000


def test_streams_with_nothing_to_do_are_not_read(start, postgres):
    address = postgres.new()
    server = start(address)
    server.make("first")
    server.ask("first", "a")
    server.label("first", "a", 0)
    server.stop()
    fill(address, COUNT)
    scans = sa.text("select seq_scan from pg_stat_xact_user_tables where relname = 'stream'")
    with closing(open_database(address)) as opened:
        with opened.writing() as connection:
            count = connection.execute(sa.select(sa.func.count()).select_from(stream)).scalar_one()
            assert count == COUNT + 1
            late = sa.update(stream).where(stream.c.name == "t7").values(last_seq=9)
            connection.execute(late)
        with opened.reading() as connection:
            before = connection.execute(scans).scalar_one()
            # A limit that is small beside what the planner expects, as of a million streams.
            assert len(behind(connection, range(SHARDS), limit=10)) == 1
            assert waiting_events(connection, range(SHARDS)) == 7
            assert connection.execute(scans).scalar_one() == before
