package jobs;

import io.awspring.cloud.sqs.annotation.SqsListener;
import io.awspring.cloud.sqs.operations.SqsTemplate;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import software.amazon.awssdk.services.sqs.SqsAsyncClient;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;

/** Sends and receives messages with Spring Cloud AWS beside a broker that is killed. */
@Configuration(proxyBeanMethods = false)
@EnableAutoConfiguration
public class Jobs {
    static final int NUMBERS = Integer.parseInt(System.getenv("NUMBERS"));
    static final Set<String> got = ConcurrentHashMap.newKeySet();

    static synchronized void say(Object... words) {
        System.out.println(String.join(" ", java.util.Arrays.stream(words).map(String::valueOf).toList()));
    }

    @SqsListener(value = "${QUEUE}", pollTimeoutSeconds = "1")
    public void job(Message m) {
        say("got", m.body(), m.messageId());
        got.add(m.body());
    }

    public static void main(String[] args) throws Exception {
        SpringApplication app = new SpringApplication(Jobs.class);
        app.setDefaultProperties(Map.of(
            "spring.cloud.aws.sqs.endpoint", System.getenv("ENDPOINT"), "spring.main.banner-mode", "off", "logging.level.root", "off"));
        try (ConfigurableApplicationContext context = app.run(args)) {
            String queue = System.getenv("QUEUE"); // made by the listener
            SqsAsyncClient sqs = context.getBean(SqsAsyncClient.class);
            String url = sqs.getQueueUrl(r -> r.queueName(queue)).get().queueUrl();
            sqs.setQueueAttributes(r -> r.queueUrl(url).attributes(Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "5"))).get();
            SqsTemplate template = context.getBean(SqsTemplate.class);
            for (int n = 0; n < NUMBERS; n++) {
                while (true) {
                    try {
                        say("sent", n, template.send(queue, String.valueOf(n)).messageId());
                        break;
                    } catch (RuntimeException e) {
                        Thread.sleep(100); // the broker is gone
                    }
                }
            }
            while (got.size() < NUMBERS) Thread.sleep(50);
        }
    }
}
