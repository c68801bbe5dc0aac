import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** The admin client, on topics, settings and the cluster. */
class Admin {
    static void run(Properties config) throws Exception {
        try (var admin = org.apache.kafka.clients.admin.Admin.create(config)) {
            cluster(admin);
            topics(admin);
            settings(admin);
            partitions(admin);
            delete(admin);
        }
        Interop.say("done");
    }

    private static void cluster(org.apache.kafka.clients.admin.Admin admin) throws Exception {
        var got = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        Collection<Node> nodes = got.nodes().get();
        Interop.same(nodes.size(), 1, "brokers");
        Interop.same(got.controller().get(), nodes.iterator().next(), "controller");
        Interop.want(!got.clusterId().get().isEmpty(), "the cluster has no id");
        var features = admin.describeFeatures().featureMetadata().get();
        Interop.want(features.finalizedFeatures().isEmpty(), "features: %s", features);
    }

    static TopicDescription describe(org.apache.kafka.clients.admin.Admin admin, String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private static void topics(org.apache.kafka.clients.admin.Admin admin) throws Exception {
        var wanted = new NewTopic("admin-a", 3, (short) 1).configs(Map.of("retention.ms", "7200000", "cleanup.policy", "delete"));
        admin.createTopics(List.of(new NewTopic("admin-dry", 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)).all().get();
        var created = admin.createTopics(List.of(wanted, new NewTopic("admin-b", Optional.empty(), Optional.empty()),
            new NewTopic("admin-c", Map.of(0, List.of(1), 1, List.of(1)))));
        created.all().get();
        Uuid id = created.topicId("admin-a").get();
        Interop.same(created.numPartitions("admin-a").get(), 3, "partitions of admin-a");
        Interop.same(created.config("admin-a").get().get("retention.ms").value(), "7200000", "retention.ms as created");
        Set<String> names = admin.listTopics().names().get();
        Interop.want(names.containsAll(Set.of("admin-a", "admin-b", "admin-c")) && !names.contains("admin-dry"), "topics: %s", names);
        TopicDescription a = describe(admin, "admin-a");
        int node = admin.describeCluster().controller().get().id();
        Interop.same(a.partitions().size(), 3, "partitions described");
        Interop.same(a.topicId(), id, "topic id");
        Interop.want(!a.isInternal() && a.partitions().get(2).leader().id() == node && a.partitions().get(2).isr().size() == 1, "%s", a);
        Interop.same(describe(admin, "admin-c").partitions().size(), 2, "partitions of admin-c");
        var byId = admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id);
        Interop.same(byId.name(), "admin-a", "name of the id");
        Interop.refused(TopicExistsException.class, "a topic twice", () -> admin.createTopics(List.of(wanted)).all().get());
        Interop.refused(InvalidTopicException.class, "a bad name", () -> admin.createTopics(List.of(new NewTopic("a/b", 1, (short) 1))).all().get());
        Interop.refused(InvalidPartitionsException.class, "no partitions", () -> admin.createTopics(List.of(new NewTopic("admin-n", 0, (short) 1))).all().get());
        Interop.refused(InvalidConfigurationException.class, "an unknown setting",
            () -> admin.createTopics(List.of(new NewTopic("admin-n", 1, (short) 1).configs(Map.of("no.such", "1")))).all().get());
        Interop.refused(UnknownTopicOrPartitionException.class, "a topic that is not there", () -> describe(admin, "admin-none"));
        Interop.refused(UnknownTopicOrPartitionException.class, "the topic that was only tried", () -> describe(admin, "admin-dry"));
    }

    private static ConfigEntry setting(org.apache.kafka.clients.admin.Admin admin, String topic, String name) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Config all = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        ConfigEntry one = all.get(name);
        Interop.want(one != null, "%s has no %s: %s", topic, name, all);
        return one;
    }

    private static void alter(org.apache.kafka.clients.admin.Admin admin, String topic, ConfigEntry entry, OpType type) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        admin.incrementalAlterConfigs(Map.of(resource, List.<AlterConfigOp>of(new AlterConfigOp(entry, type)))).all().get();
    }

    private static void settings(org.apache.kafka.clients.admin.Admin admin) throws Exception {
        ConfigEntry retention = setting(admin, "admin-a", "retention.ms");
        Interop.same(retention.value(), "7200000", "retention.ms");
        Interop.same(retention.source(), ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, "source of retention.ms");
        Interop.same(setting(admin, "admin-b", "retention.ms").source(), ConfigEntry.ConfigSource.DEFAULT_CONFIG, "source of a default");
        alter(admin, "admin-a", new ConfigEntry("retention.bytes", "1073741824"), OpType.SET);
        Interop.same(setting(admin, "admin-a", "retention.bytes").value(), "1073741824", "retention.bytes");
        Interop.same(setting(admin, "admin-a", "retention.ms").value(), "7200000", "retention.ms beside it");
        alter(admin, "admin-a", new ConfigEntry("retention.ms", null), OpType.DELETE);
        Interop.same(setting(admin, "admin-a", "retention.ms").source(), ConfigEntry.ConfigSource.DEFAULT_CONFIG, "source after the deletion");
        alter(admin, "admin-b", new ConfigEntry("cleanup.policy", "compact"), OpType.APPEND);
        // A set, so the order is the broker's affair.
        Set<String> policy = Set.of(setting(admin, "admin-b", "cleanup.policy").value().split(","));
        Interop.same(policy, Set.of("delete", "compact"), "cleanup.policy appended to");
        alter(admin, "admin-b", new ConfigEntry("cleanup.policy", "compact"), OpType.SUBTRACT);
        Interop.same(setting(admin, "admin-b", "cleanup.policy").value(), "delete", "cleanup.policy taken from");
        alter(admin, "admin-a", new ConfigEntry("segment.bytes", "1048576"), OpType.SET); // taken, without effect
        Interop.refused(InvalidConfigurationException.class, "a bad value",
            () -> alter(admin, "admin-a", new ConfigEntry("retention.ms", "soon"), OpType.SET));
        Interop.refused(InvalidConfigurationException.class, "an unknown setting",
            () -> alter(admin, "admin-a", new ConfigEntry("no.such", "1"), OpType.SET));
        Interop.refused(UnknownTopicOrPartitionException.class, "settings of no topic",
            () -> alter(admin, "admin-none", new ConfigEntry("retention.ms", "1"), OpType.SET));
        // The tools ask for the broker's settings as well.
        var broker = new ConfigResource(ConfigResource.Type.BROKER, admin.describeCluster().controller().get().idString());
        try {
            Interop.say("settings of the broker: %s", admin.describeConfigs(List.of(broker)).all().get().get(broker).entries().size());
        } catch (ExecutionException e) {
            Interop.say("settings of the broker: %s", e.getCause());
        }
    }

    private static void partitions(org.apache.kafka.clients.admin.Admin admin) throws Exception {
        admin.createPartitions(Map.of("admin-a", NewPartitions.increaseTo(5))).all().get();
        Interop.same(describe(admin, "admin-a").partitions().size(), 5, "partitions after more were asked for");
        Interop.refused(InvalidPartitionsException.class, "fewer partitions",
            () -> admin.createPartitions(Map.of("admin-a", NewPartitions.increaseTo(2))).all().get());
        Interop.refused(UnknownTopicOrPartitionException.class, "partitions of no topic",
            () -> admin.createPartitions(Map.of("admin-none", NewPartitions.increaseTo(2))).all().get());
        int node = admin.describeCluster().controller().get().id();
        var dirs = admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node);
        Interop.same(dirs.size(), 1, "folders");
        var dir = dirs.values().iterator().next();
        Interop.want(dir.error() == null && dir.replicaInfos().keySet().stream().filter(p -> p.topic().equals("admin-a")).count() == 5, "%s", dirs);
    }

    private static void delete(org.apache.kafka.clients.admin.Admin admin) throws Exception {
        Uuid c = describe(admin, "admin-c").topicId();
        admin.deleteTopics(List.of("admin-a", "admin-b")).all().get();
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(c))).all().get();
        Set<String> names = admin.listTopics().names().get();
        Interop.want(names.stream().noneMatch(n -> n.startsWith("admin-")), "topics after they were deleted: %s", names);
        Interop.refused(UnknownTopicOrPartitionException.class, "a topic deleted twice", () -> admin.deleteTopics(List.of("admin-a")).all().get());
    }
}
