// SPDX-License-Identifier: GPL-2.0-only
import com.sun.management.ThreadMXBean;
import java.io.File;
import java.io.IOException;
import java.io.StringWriter;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.StandardLocation;
import javax.tools.ToolProvider;

/**
 * Compiles parts of the JDK with its own compiler, and records the objects of each compilation.
 *
 * <pre>java -agentpath:AGENT RecordJavac AGENT SOURCES TRACES MOST ROUND... -- UNIT...</pre>
 *
 * SOURCES is a folder with the JDK's sources, a folder for each module. A UNIT is MODULE/PACKAGE. A
 * ROUND is the name of traces, or "-": all units are compiled at the same time, a thread each, and
 * with "-" not recorded: the compiler becomes warm. TRACES gets MOST objects from the middle of each
 * compilation; 0: all. Prints, for each, its bytes as recorded and as the JVM counts them.
 */
final class RecordJavac {
    private static final ThreadMXBean THREADS =
            (ThreadMXBean) ManagementFactory.getThreadMXBean();
    private static final JavaCompiler COMPILER = ToolProvider.getSystemJavaCompiler();

    static native void begin();

    static native long end(String path, long most);

    private static List<File> sources(Path sources, String unit) throws IOException {
        try (Stream<Path> files = Files.list(sources.resolve(unit))) {
            return files.filter(file -> file.toString().endsWith(".java"))
                    .filter(file -> !file.endsWith("package-info.java"))
                    .sorted()
                    .map(Path::toFile)
                    .collect(Collectors.toList());
        }
    }

    private static void compile(Path sources, String unit, String trace, long most)
            throws IOException {
        String module = unit.substring(0, unit.indexOf('/'));
        Path classes = Files.createTempDirectory("record-javac");
        StringWriter messages = new StringWriter();
        long thread = Thread.currentThread().getId();
        List<File> files = sources(sources, unit);
        try (StandardJavaFileManager manager =
                COMPILER.getStandardFileManager(null, null, null)) {
            manager.setLocation(StandardLocation.CLASS_OUTPUT, List.of(classes.toFile()));
            JavaCompiler.CompilationTask task =
                    COMPILER.getTask(
                            messages,
                            manager,
                            null,
                            List.of(
                                    "-proc:none",
                                    "-nowarn",
                                    "-XDignore.symbol.file",
                                    "--patch-module",
                                    module + "=" + sources.resolve(module)),
                            null,
                            manager.getJavaFileObjectsFromFiles(files));
            long before = THREADS.getThreadAllocatedBytes(thread);
            if (trace != null) {
                begin();
            }
            boolean good = task.call();
            long recorded = trace == null ? 0 : end(trace, most);
            long counted = THREADS.getThreadAllocatedBytes(thread) - before;
            if (!good) {
                System.err.println("RecordJavac: " + unit + " does not compile:\n" + messages);
                System.exit(1);
            }
            if (trace != null) {
                System.out.println(trace + " " + recorded + " " + counted);
            }
        }
        try (Stream<Path> all = Files.walk(classes)) {
            all.sorted((a, b) -> b.compareTo(a)).map(Path::toFile).forEach(File::delete);
        }
    }

    private static void round(Path sources, List<String> units, String traces, long most)
            throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (String unit : units) {
            String trace =
                    traces == null ? null : traces + "-" + unit.replace('/', '.') + ".trace";
            Thread thread =
                    new Thread(
                            () -> {
                                try {
                                    compile(sources, unit, trace, most);
                                } catch (IOException e) {
                                    System.err.println("RecordJavac: " + unit + ": " + e);
                                    System.exit(1);
                                }
                            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<String> list = List.of(arguments);
        int units = list.indexOf("--") + 1;
        if (units < 6 || units == list.size()) {
            System.err.println(
                    "usage: RecordJavac AGENT SOURCES TRACES MOST ROUND... -- UNIT...");
            System.exit(2);
        }
        System.load(arguments[0]);
        for (String name : list.subList(4, units - 1)) {
            round(
                    Path.of(arguments[1]),
                    list.subList(units, list.size()),
                    name.equals("-") ? null : Path.of(arguments[2], name).toString(),
                    Long.parseLong(arguments[3]));
        }
    }
}
