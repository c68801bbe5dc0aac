import io
import os

from seb_client import AuthenticatedClient
from seb_client.api.default import get_records, get_topic, post_records
from seb_client.models import Code, PostRecordsFilesBody, Problem, Produced, RecordIn, RecordsIn
from seb_client.types import File

client = AuthenticatedClient(base_url=os.environ["SEB_URL"], token=os.environ["SEB_API_KEY"])
topic = "python"

written = post_records.sync(client=client, topic_name=topic, body=RecordIn(key="k", value="made by python"))
assert isinstance(written, Produced) and written.count == 1, written
written = post_records.sync(client=client, topic_name=topic, body=RecordsIn(records=[RecordIn(value="b"), RecordIn(value=None)]))
assert isinstance(written, Produced) and written.count == 2, written
written = post_records.sync(client=client, topic_name=topic, body=File(payload=io.BytesIO(b"\x00raw")))
assert isinstance(written, Produced) and written.first_offset == 3, written
written = post_records.sync(
    client=client, topic_name=topic, body=PostRecordsFilesBody(sizes="[3,4]", records=File(payload=io.BytesIO(b"abcdefg")))
)
assert written.offsets == [4, 5], written

problem = get_topic.sync(client=client, topic_name="none")
assert isinstance(problem, Problem) and problem.code == Code.UNKNOWN_TOPIC, problem

read = get_records.sync_detailed(client=client.with_headers({"Accept": "application/json"}), topic_name=topic, offset="0")
assert read.status_code == 200 and len(read.parsed) == 6, read
print("read:", read.parsed[0].value)
