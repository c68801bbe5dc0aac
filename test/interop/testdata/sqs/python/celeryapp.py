"""Runs tasks of Celery beside a broker that is killed. Without arguments it sends them, `worker` runs them."""
import os
import sys
import time
from urllib.parse import quote, urlsplit

from celery import Celery

host = urlsplit(os.environ["ENDPOINT"]).netloc
key, secret = (quote(os.environ[name], safe="") for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
app = Celery("jobs", broker=f"sqs://{key}:{secret}@{host}")
# A worker never forgets a message whose deletion has failed, and its prefetch count is soon full of them, so the
# client must repeat deletions for as long as a broker is away.
retries = {"mode": "standard", "max_attempts": 12}
app.conf.update(
    broker_transport_options={"region": os.environ["AWS_DEFAULT_REGION"], "is_secure": False, "visibility_timeout": 5, "wait_time_seconds": 1,
                              "client-config": {"retries": retries}},
    task_default_queue=os.environ["QUEUE"], task_acks_late=True, task_ignore_result=True, worker_enable_remote_control=False,
    worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True)


@app.task(name="jobs.job")
def job(number):
    print("got", number, "-", file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        app.worker_main(["worker", "--pool=solo", "--loglevel=ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"])
        sys.exit()
    for n in range(int(os.environ["NUMBERS"])):
        while True:
            try:
                job.delay(n)
                break
            except Exception as e:
                print(e, file=sys.stderr)
                time.sleep(0.1)
        print("sent", n, "-", flush=True)
