"""What AdminClient can ask for. Argument: the name of a topic that is not there yet."""

import sys
import threading
import time
import warnings

from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException, Producer
from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import AclBinding, AclBindingFilter, AclOperation, AclPermissionType, AdminClient, AlterConfigOpType, ConfigEntry
from confluent_kafka.admin import ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourcePatternType, ResourceType

from place import expect, settings, tell

warnings.simplefilter("ignore", DeprecationWarning)  # of alter_configs, which old programs use
topic = sys.argv[1]
admin = AdminClient(settings())
FIRST = 1_700_000_000_000  # timestamp of the first record


def result(futures):
    """What the only future gives."""
    (future,) = futures.values()
    return future.result(30)


def refused(what, code, call):
    try:
        call()
    except KafkaException as e:
        expect(what, e.args[0].code(), code)
        return
    raise AssertionError(f"{what} succeeded")


def config(name):
    return result(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))[name].value


def produce(name, partition, values, timestamp=None):
    p = Producer(settings())
    for i, v in enumerate(values):
        p.produce(name, v, partition=partition, **({"timestamp": timestamp + i * 1000} if timestamp else {}))
    expect("left in the queue", p.flush(30), 0)


def topics():
    began = time.time()
    result(admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "3600000"})]))
    refused("a second topic of the name", KafkaError.TOPIC_ALREADY_EXISTS, lambda: result(admin.create_topics([NewTopic(topic, 2, 1)])))
    refused("a name that is none", KafkaError.TOPIC_EXCEPTION, lambda: result(admin.create_topics([NewTopic("a/b", 2, 1)])))
    refused(
        "a setting that is none", KafkaError.INVALID_CONFIG, lambda: result(admin.create_topics([NewTopic("other", 1, 1, config={"no.such": "1"})]))
    )
    result(admin.create_topics([NewTopic("validated", 1, 1)], validate_only=True))
    listed = admin.list_topics(timeout=30)
    expect("validated only", "validated" in listed.topics, False)
    expect("partitions", sorted(listed.topics[topic].partitions), [0, 1])
    node, = listed.brokers
    expect("leader", listed.topics[topic].partitions[1].leader, node)
    expect("controller", listed.controller_id, node)
    described = result(admin.describe_topics(TopicCollection([topic])))
    expect("described", [(p.id, p.leader.id, len(p.isr)) for p in described.partitions], [(0, node, 1), (1, node, 1)])
    nodes = admin.describe_cluster().result(30).nodes
    expect("nodes", [n.id for n in nodes], [node])
    tell("AdminClient: create, list and describe topics, describe the cluster", began)

    began = time.time()
    expect("retention at creation", config("retention.ms"), "3600000")
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    resource.add_incremental_config(ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET))
    result(admin.incremental_alter_configs([resource]))
    expect("retention changed", config("retention.ms"), "7200000")
    whole = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config={"max.message.bytes": "500000"})
    result(admin.alter_configs([whole]))
    expect("retention after all were set", config("retention.ms") != "7200000", True)
    expect("largest batch", config("max.message.bytes"), "500000")
    bad = ConfigResource(ConfigResource.Type.TOPIC, topic)
    bad.add_incremental_config(ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET))
    refused("a value that is none", KafkaError.INVALID_CONFIG, lambda: result(admin.incremental_alter_configs([bad])))
    tell("AdminClient: describe configs, alter configs, one by one and all", began)


def partitions():
    """More partitions while a consumer runs, which has to find them."""
    began = time.time()
    got, end, assigned = [], threading.Event(), []
    c = Consumer(settings(group_id="growing", auto_offset_reset="earliest", topic_metadata_refresh_interval_ms=500, enable_auto_commit=False))

    def run():
        c.subscribe([topic], on_assign=lambda _, parts: assigned.append(sorted(p.partition for p in parts)))
        while not end.is_set():
            m = c.poll(0.1)
            if m is not None and m.error() is None:
                got.append((m.partition(), m.value()))
                c.commit(m, asynchronous=False)
        c.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        produce(topic, 1, [b"old"])
        wait("the record before", lambda: got == [(1, b"old")])
        result(admin.create_partitions([NewPartitions(topic, 5)]))
        refused("fewer partitions", KafkaError.INVALID_PARTITIONS, lambda: result(admin.create_partitions([NewPartitions(topic, 3)])))
        produce(topic, 4, [b"new"])
        wait("the record in the new partition", lambda: (4, b"new") in got)
        expect("assignments", (assigned[0], assigned[-1]), ([0, 1], [0, 1, 2, 3, 4]))
        members(got)
    finally:
        end.set()
        thread.join()
    tell("AdminClient: create partitions, which a running consumer finds; its group", began)


def wait(what, is_so):
    until = time.time() + 60
    while not is_so():
        if time.time() > until:
            raise AssertionError(f"never: {what}")
        time.sleep(0.02)


def members(got):
    """The group of the consumer that runs."""
    described = result(admin.describe_consumer_groups(["growing"]))
    expect("state", described.state, ConsumerGroupState.STABLE)
    expect("members", [sorted(p.partition for p in m.assignment.topic_partitions) for m in described.members], [[0, 1, 2, 3, 4]])
    expect("assignor", described.partition_assignor, "range")
    refused("delete of a group with members", KafkaError.NON_EMPTY_GROUP, lambda: result(admin.delete_consumer_groups(["growing"])))


def groups():
    began = time.time()
    listed = admin.list_consumer_groups().result(30)
    expect("faults", listed.errors, [])
    expect("group in the list", [(g.group_id, g.state) for g in listed.valid if g.group_id == "growing"], [("growing", ConsumerGroupState.EMPTY)])
    wanted = ConsumerGroupTopicPartitions("growing")
    offsets = {(p.partition, p.offset) for p in result(admin.list_consumer_group_offsets([wanted])).topic_partitions}
    expect("offsets", offsets, {(1, 1), (4, 1)})
    moved = ConsumerGroupTopicPartitions("growing", [TopicPartition(topic, 1, 0)])
    result(admin.alter_consumer_group_offsets([moved]))
    only = ConsumerGroupTopicPartitions("growing", [TopicPartition(topic, 1)])
    expect("moved", [p.offset for p in result(admin.list_consumer_group_offsets([only])).topic_partitions], [0])
    result(admin.delete_consumer_groups(["growing"]))
    listed = admin.list_consumer_groups().result(30)
    expect("deleted", [g for g in listed.valid if g.group_id == "growing"], [])
    refused("delete of no group", KafkaError.GROUP_ID_NOT_FOUND, lambda: result(admin.delete_consumer_groups(["growing"])))
    expect("state of no group", result(admin.describe_consumer_groups(["growing"])).state, ConsumerGroupState.DEAD)
    tell("AdminClient: list, describe and delete groups, list and alter their offsets", began)


def offsets():
    global admin
    began = time.time()
    admin = AdminClient(settings())  # the one before knows two partitions, and does not ask again for a while
    produce(topic, 3, [b"%d" % i for i in range(100)], FIRST)
    spec = {
        "earliest": (OffsetSpec.earliest(), 0),
        "latest": (OffsetSpec.latest(), 100),
        "the largest timestamp": (OffsetSpec.max_timestamp(), 99),
        "a timestamp": (OffsetSpec.for_timestamp(FIRST + 50_000), 50),
        "between two": (OffsetSpec.for_timestamp(FIRST + 50_001), 51),
        "after all": (OffsetSpec.for_timestamp(FIRST + 100_000), -1),
    }
    for what, (ask, want) in spec.items():
        for level in IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED:
            got = result(admin.list_offsets({TopicPartition(topic, 3): ask}, isolation_level=level))
            expect(what, got.offset, want)
    expect("time of an offset", result(admin.list_offsets({TopicPartition(topic, 3): OffsetSpec.for_timestamp(FIRST + 1)})).timestamp, FIRST + 1000)
    c = Consumer(settings(group_id="none"))
    times = c.offsets_for_times([TopicPartition(topic, 3, FIRST + 7000), TopicPartition(topic, 0, FIRST)], timeout=30)
    expect("offsets_for_times", [t.offset for t in times], [7, -1])

    result(admin.delete_records([TopicPartition(topic, 3, 40)]))
    expect("watermarks after a delete", c.get_watermark_offsets(TopicPartition(topic, 3), timeout=30), (40, 100))
    c.assign([TopicPartition(topic, 3, 40)])
    expect("first record left", c.poll(30).value(), b"40")
    refused(
        "delete beyond the end", KafkaError.OFFSET_OUT_OF_RANGE, lambda: result(admin.delete_records([TopicPartition(topic, 3, 1000)]))
    )
    c.close()
    tell("AdminClient: list offsets by timestamp, offsets_for_times, delete records", began)


def security():
    """ACLs of a user are made, listed and deleted. There are no users of SCRAM."""
    began = time.time()
    one = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermissionType.ALLOW
    )
    every = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    expect("no ACLs", admin.describe_acls(every).result(30), [])
    result(admin.create_acls([one]))
    expect("ACLs", admin.describe_acls(every).result(30), [one])
    expect("deleted ACLs", [d for f in admin.delete_acls([every]).values() for d in f.result(30)], [one])
    expect("no ACLs", admin.describe_acls(every).result(30), [])
    expect("users of SCRAM", admin.describe_user_scram_credentials().result(30), {})
    tell("ACLs, there are no users of SCRAM", began)


def delete():
    began = time.time()
    result(admin.delete_topics([topic]))
    expect("deleted", topic in admin.list_topics(timeout=30).topics, False)
    refused("delete of no topic", KafkaError.UNKNOWN_TOPIC_OR_PART, lambda: result(admin.delete_topics([topic])))
    result(admin.create_topics([NewTopic(topic, 1, 1)]))
    c = Consumer(settings(group_id="none"))
    expect("a new topic of the name is empty", c.get_watermark_offsets(TopicPartition(topic, 0), timeout=30), (0, 0))
    c.close()
    tell("AdminClient: delete a topic, make one of the same name", began)


topics()
partitions()
groups()
offsets()
security()
delete()
