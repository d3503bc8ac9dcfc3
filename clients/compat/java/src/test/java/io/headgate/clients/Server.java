package io.headgate.clients;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A headgate process of a test's own, on a port that the system chose. */
final class Server implements AutoCloseable {

    private static final Pattern LISTENING = Pattern.compile("\"msg\":\"listening\".*\"listen\":\"([^\"]+)\"");

    private String address = "127.0.0.1:0";
    private Process process;

    Server() throws IOException {
        start();
    }

    /** Starts the server, or starts it again on the same port. */
    void start() throws IOException {
        process = new ProcessBuilder(
                        Endpoint.need("HGTEST_BIN"), "serve", "--listen", address,
                        "--http-listen", "127.0.0.1:0", "--log-format", "json")
                .redirectErrorStream(true)
                .start();
        // Left open and unread: the few lines it logs after this fit into the pipe.
        BufferedReader log = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        for (String line = log.readLine(); line != null; line = log.readLine()) {
            Matcher listening = LISTENING.matcher(line);
            if (listening.find()) {
                address = listening.group(1);
                return;
            }
        }
        throw new IOException("headgate ended before it listened");
    }

    Endpoint endpoint() {
        return Endpoint.parse("own", address, null, null);
    }

    /** Ends the process as a crash does. */
    @Override
    public void close() {
        try {
            process.destroyForcibly().waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
