// SPDX-License-Identifier: GPL-2.0-only
import java.io.ByteArrayOutputStream;
import java.nio.file.*;
import java.util.zip.*;
public class Work {
	static volatile boolean wrong;
	static void work() {
		try {
			for (int round = 0; !Files.exists(Path.of("stop")); round++) {
				byte[] data = "some text ".repeat(10000 + round % 100).getBytes(), back = new byte[data.length];
				Deflater deflater = new Deflater();
				deflater.setInput(data);
				deflater.finish();
				byte[] small = new byte[data.length + 100];
				int size = deflater.deflate(small);
				deflater.end();
				Inflater inflater = new Inflater();
				inflater.setInput(small, 0, size);
				inflater.inflate(back);
				inflater.end();
				wrong |= !java.util.Arrays.equals(data, back);
			}
		} catch (Exception e) {
			wrong = true;
		}
	}
	public static void main(String[] args) throws Exception {
		Thread[] threads = new Thread[3];
		for (int i = 0; i < threads.length; i++)
			(threads[i] = new Thread(Work::work)).start();
		Files.createFile(Path.of("began"));
		for (Thread thread : threads)
			thread.join();
		System.out.println(wrong ? "wrong" : "right");
	}
}
