import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.errors.SaslAuthenticationException;

/** Who gets in: PLAIN and SCRAM with the key and without it, and no SASL at all. */
class Access {
    /** KEY. */
    static void run(Properties config, String[] args) throws Exception {
        for (String mechanism : new String[] {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}) {
            try (Admin admin = Admin.create(sasl(config, mechanism, args[0]))) {
                Interop.same(admin.describeCluster().nodes().get(20, TimeUnit.SECONDS).size(), 1, "brokers by " + mechanism);
            }
            long begin = System.nanoTime();
            try (Admin admin = Admin.create(sasl(config, mechanism, args[0] + "x"))) {
                Interop.refused(SaslAuthenticationException.class, mechanism + " with a wrong key", () -> admin.describeCluster().nodes().get(20, TimeUnit.SECONDS));
            }
            Interop.say("refused after %d ms", (System.nanoTime() - begin) / 1_000_000);
        }
        Properties none = new Properties();
        none.put("bootstrap.servers", config.getProperty("bootstrap.servers"));
        none.put("default.api.timeout.ms", "5000");
        none.put("request.timeout.ms", "4000");
        try (Admin admin = Admin.create(none)) {
            Interop.refused(Exception.class, "without SASL", () -> admin.describeCluster().nodes().get(20, TimeUnit.SECONDS));
        }
        Interop.say("done");
    }

    private static Properties sasl(Properties config, String mechanism, String key) {
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        return Interop.with(config, "sasl.mechanism", mechanism, "default.api.timeout.ms", "15000", "request.timeout.ms", "10000", "sasl.jaas.config",
            "org.apache.kafka.common.security." + module + " required username=\"anybody\" password=\"" + key + "\";");
    }
}
