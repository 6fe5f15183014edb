package tidemark;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;

/**
 * Commits to a Delta log on S3 by a conditional write (If-None-Match: *), so that of several writers of a version, in
 * whatever process, exactly one wins. Delta's own store for s3a looks for the version first and then writes it
 * unconditionally, which only writers within one JVM survive.
 *
 * Compiled by Janino, which knows no lambdas and no type arguments of methods.
 */
public class S3LogStore extends S3SingleDriverLogStore {
    public S3LogStore(Configuration configuration) {
        super(configuration);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration configuration) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, configuration);
            return;
        }
        ByteArrayOutputStream lines = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            lines.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
        }
        byte[] commit = lines.toByteArray();
        FileSystem files = path.getFileSystem(configuration);
        try {
            put(files, path, commit);
        } catch (IOException error) {
            // An answer may be lost and the request sent again, which then finds its own object: every commit has an
            // identifier of its own, so equal bytes are ours.
            byte[] there = get(files, path);
            if (there == null) {
                throw error;
            }
            if (!Arrays.equals(there, commit)) {
                FileAlreadyExistsException taken = new FileAlreadyExistsException(path.toString());
                taken.initCause(error);
                throw taken;
            }
        }
    }

    /** Raises where the file is there. A file system that cannot write on this condition refuses. */
    private static void put(FileSystem files, Path path, byte[] content) throws IOException {
        String condition = Options.CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE;
        FSDataOutputStream out =
            (FSDataOutputStream) files.createFile(path).must(condition, true).build();
        out.write(content);
        out.close();
    }

    /** The file's bytes, null where there is none. */
    private static byte[] get(FileSystem files, Path path) throws IOException {
        FSDataInputStream in;
        try {
            in = files.open(path);
        } catch (FileNotFoundException missing) {
            return null;
        }
        try {
            return in.readAllBytes();
        } finally {
            in.close();
        }
    }
}
