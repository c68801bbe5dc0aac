import java.io.FileInputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What the sink of Flink does: a process writes a transaction and dies, and another one ends it with the ID and the epoch of its producer.
 * java Resume begin CONFIG ID TOPIC prints "PRODUCER EPOCH", and java Resume commit CONFIG ID PRODUCER EPOCH prints "committed".
 */
public class Resume {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        try (FileInputStream in = new FileInputStream(args[1])) {
            config.load(in);
        }
        config.put("transactional.id", args[2]);
        config.put("transaction.timeout.ms", "600000");
        KafkaProducer<String, String> producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        Object manager = get(producer, "transactionManager");
        if (args[0].equals("begin")) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int n = 0; n < 10; n++) {
                producer.send(new ProducerRecord<>(args[3], "n" + n));
            }
            producer.flush();
            Object of = get(manager, "producerIdAndEpoch");
            System.out.println(get(of, "producerId") + " " + get(of, "epoch"));
        } else {
            synchronized (manager) {
                to(manager, "INITIALIZING");
                call(get(manager, "txnPartitionMap"), "reset");
                Class<?> type = Class.forName("org.apache.kafka.common.utils.ProducerIdAndEpoch");
                Constructor<?> make = type.getDeclaredConstructor(long.class, short.class);
                make.setAccessible(true);
                set(manager, "producerIdAndEpoch", make.newInstance(Long.parseLong(args[3]), Short.parseShort(args[4])));
                to(manager, "READY");
                to(manager, "IN_TRANSACTION");
                set(manager, "transactionStarted", true);
            }
            producer.commitTransaction();
            System.out.println("committed");
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // as if it was killed
    }

    private static Field field(Object of, String name) throws Exception {
        Field f = of.getClass().getDeclaredField(name);
        f.setAccessible(true);
        return f;
    }

    private static Object get(Object of, String name) throws Exception {
        return field(of, name).get(of);
    }

    private static void set(Object of, String name, Object value) throws Exception {
        field(of, name).set(of, value);
    }

    private static void call(Object of, String name) throws Exception {
        Method m = of.getClass().getDeclaredMethod(name);
        m.setAccessible(true);
        m.invoke(of);
    }

    /** Changes the state of the transaction manager. */
    private static void to(Object manager, String state) throws Exception {
        for (Class<?> inner : manager.getClass().getDeclaredClasses()) {
            if (inner.isEnum() && inner.getSimpleName().equals("State")) {
                Method m = manager.getClass().getDeclaredMethod("transitionTo", inner);
                m.setAccessible(true);
                for (Object value : inner.getEnumConstants()) {
                    if (value.toString().equals(state)) {
                        m.invoke(manager, value);
                    }
                }
            }
        }
    }
}
