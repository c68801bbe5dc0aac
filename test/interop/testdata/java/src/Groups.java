import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The admin client, on consumer groups. */
class Groups {
    private static final TopicPartition ZERO = new TopicPartition("groups-a", 0);
    private static final TopicPartition ONE = new TopicPartition("groups-a", 1);

    static void run(Properties config) throws Exception {
        try (Admin admin = Admin.create(config)) {
            admin.createTopics(List.of(new NewTopic("groups-a", 2, (short) 1))).all().get();
            empty(admin);
            Properties mine = Interop.with(config, "group.id", "group-a", "group.instance.id", "one", "client.id", "reader", "enable.auto.commit", "false");
            try (var consumer = new KafkaConsumer<>(mine, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                join(consumer);
                active(admin, consumer);
                fenced(mine, consumer);
            }
            leave(admin);
            delete(admin);
        }
        Interop.say("done");
    }

    private static void join(KafkaConsumer<byte[], byte[]> consumer) {
        consumer.subscribe(List.of("groups-a"));
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (consumer.assignment().size() < 2) {
            Interop.want(System.nanoTime() < deadline, "nothing was assigned");
            consumer.poll(Duration.ofMillis(200));
        }
    }

    /** A new member with the name of another replaces it; the old one gets an error. */
    private static void fenced(Properties mine, KafkaConsumer<byte[], byte[]> before) {
        try (var consumer = new KafkaConsumer<>(mine, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            join(consumer);
            Interop.refused(FencedInstanceIdException.class, "a commit of the member whose name another has taken",
                () -> before.commitSync(Map.of(ZERO, new OffsetAndMetadata(9))));
            consumer.commitSync(Map.of(ONE, new OffsetAndMetadata(4)));
            Interop.same(consumer.committed(Set.of(ZERO, ONE)), Map.of(ZERO, new OffsetAndMetadata(3, "mine"), ONE, new OffsetAndMetadata(4)), "committed");
        }
    }

    private static Map<TopicPartition, OffsetAndMetadata> committed(Admin admin, String group) throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    /** A group that only its offsets make. */
    private static void empty(Admin admin) throws Exception {
        Interop.refused(GroupIdNotFoundException.class, "a group that is not there", () -> admin.describeConsumerGroups(List.of("group-none")).all().get());
        admin.alterConsumerGroupOffsets("group-b", Map.of(ZERO, new OffsetAndMetadata(7, "why"), ONE, new OffsetAndMetadata(0))).all().get();
        var got = committed(admin, "group-b");
        Interop.same(got.get(ZERO).offset(), 7L, "offset");
        Interop.same(got.get(ZERO).metadata(), "why", "metadata");
        Interop.same(got.size(), 2, "offsets");
        var several = admin.listConsumerGroupOffsets(Map.of("group-b", new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(ONE)),
            "group-none", new ListConsumerGroupOffsetsSpec()));
        Interop.same(several.partitionsToOffsetAndMetadata("group-b").get().keySet(), Set.of(ONE), "offsets of one partition");
        Interop.same(several.partitionsToOffsetAndMetadata("group-none").get().size(), 0, "offsets of no group");
        var description = admin.describeConsumerGroups(List.of("group-b")).all().get().get("group-b");
        Interop.same(description.groupState(), GroupState.EMPTY, "state of a group without members");
        admin.deleteConsumerGroupOffsets("group-b", Set.of(ONE)).all().get();
        Interop.same(committed(admin, "group-b").keySet(), Set.of(ZERO), "offsets after one was deleted");
    }

    @SuppressWarnings("removal") // tools of older versions list groups so
    private static void active(Admin admin, KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        consumer.commitSync(Map.of(ZERO, new OffsetAndMetadata(3, "mine")));
        Interop.same(consumer.committed(Set.of(ZERO)).get(ZERO).metadata(), "mine", "metadata of the member's commit");
        var listed = admin.listConsumerGroups().all().get().stream().filter(g -> g.groupId().equals("group-a")).toList();
        Interop.same(listed.size(), 1, "groups of that name");
        Interop.same(listed.get(0).groupState().orElse(null), GroupState.STABLE, "state in the list");
        var all = admin.listGroups().all().get();
        Interop.want(all.stream().anyMatch(g -> g.groupId().equals("group-b")), "listed: %s", all);
        var description = admin.describeConsumerGroups(List.of("group-a")).all().get().get("group-a");
        Interop.same(description.groupState(), GroupState.STABLE, "state");
        Interop.same(description.partitionAssignor(), "range", "assignor");
        Interop.same(description.coordinator().id(), admin.describeCluster().controller().get().id(), "coordinator");
        var member = description.members().iterator().next();
        Interop.same(member.groupInstanceId().orElse(""), "one", "instance");
        Interop.same(member.clientId(), "reader", "client");
        Interop.same(member.host(), "/127.0.0.1", "host");
        Interop.same(member.assignment().topicPartitions(), Set.of(ZERO, ONE), "assignment");
        Interop.refused(GroupNotEmptyException.class, "a group with members deleted", () -> admin.deleteConsumerGroups(List.of("group-a")).all().get());
        Interop.refused(UnknownMemberIdException.class, "offsets of a group with members altered",
            () -> admin.alterConsumerGroupOffsets("group-a", Map.of(ZERO, new OffsetAndMetadata(1))).all().get());
        Interop.refused(GroupSubscribedToTopicException.class, "offsets of a group with members deleted",
            () -> admin.deleteConsumerGroupOffsets("group-a", Set.of(ZERO)).partitionResult(ZERO).get());
    }

    /** A static member stays when its consumer is closed; only its name removes it. */
    private static void leave(Admin admin) throws Exception {
        var description = admin.describeConsumerGroups(List.of("group-a")).all().get().get("group-a");
        Interop.same(description.members().size(), 1, "members after the static one was closed");
        admin.removeMembersFromConsumerGroup("group-a", new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")))).all().get();
        description = admin.describeConsumerGroups(List.of("group-a")).all().get().get("group-a");
        Interop.same(description.groupState(), GroupState.EMPTY, "state after the member was removed");
        Interop.same(committed(admin, "group-a").get(ZERO).offset(), 3L, "the commit stays");
    }

    private static void delete(Admin admin) throws Exception {
        admin.deleteConsumerGroups(List.of("group-a", "group-b")).all().get();
        Interop.refused(GroupIdNotFoundException.class, "a group deleted twice", () -> admin.deleteConsumerGroups(List.of("group-a")).all().get());
        Interop.same(committed(admin, "group-b").size(), 0, "offsets of a deleted group");
    }
}
