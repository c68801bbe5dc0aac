import java.io.FileInputStream;
import java.io.InputStream;
import java.util.Arrays;
import java.util.Properties;

/** What the tests run, by name: java Interop NAME CONFIG ARGUMENT... where CONFIG is a file of client settings. */
public class Interop {
    public static void main(String[] args) {
        try {
            Properties config = new Properties();
            try (InputStream in = new FileInputStream(args[1])) {
                config.load(in);
            }
            String[] rest = Arrays.copyOfRange(args, 2, args.length);
            switch (args[0]) {
                case "fill" -> Codecs.fill(config, rest);
                case "check" -> Codecs.check(config, rest);
                case "feed" -> Sequence.feed(config, rest);
                case "judge" -> Sequence.judge(config, rest);
                case "member" -> Member.run(config, rest);
                case "admin" -> Admin.run(config);
                case "records" -> Records.run(config);
                case "groups" -> Groups.run(config);
                case "access" -> Access.run(config, rest);
                default -> throw new IllegalArgumentException(args[0]);
            }
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
    }

    /** What a test prints for its reader: one line, at once. */
    static synchronized void say(String format, Object... args) {
        System.out.println(String.format(format, args));
        System.out.flush();
    }

    /** Fails the test where a claim does not hold. */
    static void want(boolean claim, String format, Object... args) {
        if (!claim) {
            throw new AssertionError(String.format(format, args));
        }
    }

    static void same(Object got, Object wanted, String what) {
        want(got == null ? wanted == null : got.equals(wanted), "%s: %s, want %s", what, got, wanted);
    }

    interface Action {
        void run() throws Exception;
    }

    /** The exception that an action ends with, without the wrapper that futures have; it must be of a class. */
    static <T extends Throwable> T refused(Class<T> type, String what, Action action) {
        try {
            action.run();
        } catch (Throwable e) {
            Throwable cause = e instanceof java.util.concurrent.ExecutionException ? e.getCause() : e;
            if (!type.isInstance(cause)) {
                throw new AssertionError(what + ": want " + type.getName(), cause);
            }
            say("%s: %s: %s", what, cause.getClass().getSimpleName(), cause.getMessage());
            return type.cast(cause);
        }
        throw new AssertionError(what + ": nothing was thrown, want " + type.getName());
    }

    /** A copy of settings with some more. */
    static Properties with(Properties config, Object... pairs) {
        Properties all = new Properties();
        all.putAll(config);
        for (int i = 0; i < pairs.length; i += 2) {
            all.put(pairs[i], pairs[i + 1]);
        }
        return all;
    }
}
