import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import software.amazon.event.ruler.Machine;

/**
 * Adds the rules of a file, matches the events of another one on one thread, and prints what was measured as JSON.
 *
 * <p>Arguments: rules, events, seconds to measure, seconds the build may take, events whose matches are counted.
 */
public final class Driver {
    /** The compiler of the virtual machine needs this long to do its work. */
    private static final double WARM_UP_SECONDS_MIN = 5;

    private Driver() {}

    public static void main(String[] arguments) throws Exception {
        Path rules = Path.of(arguments[0]);
        List<String> events = Files.readAllLines(Path.of(arguments[1]));
        double seconds = Double.parseDouble(arguments[2]);
        double buildSecondsMax = Double.parseDouble(arguments[3]);
        int checked = Integer.parseInt(arguments[4]);

        new Machine().addRule("first", "{\"name\": [\"loads what is loaded only once\"]}");
        usedHeap(); // What reading the events has left is gone only after the first time.
        long heapBefore = usedHeap();
        Machine machine = new Machine();
        double buildSeconds = 0;
        int added = 0;
        try (BufferedReader lines = Files.newBufferedReader(rules)) {
            for (String rule = lines.readLine(); rule != null; rule = lines.readLine()) {
                long started = System.nanoTime();
                machine.addRule(Integer.toString(added), rule);
                buildSeconds += (System.nanoTime() - started) / 1e9;
                added++;
                if (buildSeconds > buildSecondsMax) {
                    print("{\"added\": %d, \"built\": false}", added);
                    return;
                }
            }
        }
        long bytes = usedHeap() - heapBefore;

        long checkedMatches = 0;
        for (String event : events.subList(0, Math.min(checked, events.size()))) {
            checkedMatches += machine.rulesForJSONEvent(event).size();
        }
        run(machine, events, Math.max(seconds, WARM_UP_SECONDS_MIN));
        double[] measured = run(machine, events, seconds);
        print(
                "{\"added\": %d, \"built\": true, \"build_s\": %.3f, \"bytes_per_subscription\": %d,"
                        + " \"events_per_s\": %.1f, \"matches_per_event\": %.3f, \"processor_share\": %.3f,"
                        + " \"checked_matches\": %d}",
                added, buildSeconds, bytes / Math.max(added, 1), measured[0], measured[1], measured[2], checkedMatches);
    }

    /** Events per second, matches per event, and processor seconds of the whole process per second. */
    private static double[] run(Machine machine, List<String> events, double seconds) throws Exception {
        long count = 0;
        long matches = 0;
        double processorBefore = processorSeconds();
        long started = System.nanoTime();
        double elapsed = 0;
        while (elapsed < seconds) {
            matches += machine.rulesForJSONEvent(events.get((int) (count % events.size()))).size();
            count++;
            elapsed = (System.nanoTime() - started) / 1e9;
        }
        double processor = processorSeconds() - processorBefore;
        return new double[] {count / elapsed, (double) matches / count, processor / elapsed};
    }

    private static double processorSeconds() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
    }

    private static long usedHeap() {
        for (int time = 0; time < 3; time++) {
            System.gc();
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    private static void print(String format, Object... values) {
        System.out.println(String.format(Locale.ROOT, format, values));
    }
}
