import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.serialization.StringSerializer;

/** What is not there is said at once, and by an exception that stays. */
class Refusals {
    static void run(Properties config) {
        long begin = System.nanoTime();
        try (var producer = new KafkaProducer<>(Interop.with(config, "transactional.id", "one"), new StringSerializer(), new StringSerializer())) {
            Interop.refused(TransactionalIdAuthorizationException.class, "initTransactions", producer::initTransactions);
        }
        quick(begin, "initTransactions");
        Interop.say("done");
    }

    /** Long before any time limit: the figure tells retries from an answer, not a fast machine from a slow one. */
    private static void quick(long begin, String what) {
        long millis = (System.nanoTime() - begin) / 1_000_000;
        Interop.say("%s refused after %d ms", what, millis);
        Interop.want(millis < 30_000, "%s took %d ms to be refused", what, millis);
    }
}
