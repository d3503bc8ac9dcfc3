package io.headgate.clients;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Three nodes that replicate, run by clients/compat/go/cluster, which kills their leader when it is told to. */
final class Cluster implements AutoCloseable {

    private final Process process;
    private final BufferedReader answers;
    private final Writer commands;
    final List<Endpoint> nodes;

    /** Starts the nodes with further arguments of headgate serve. */
    Cluster(String... args) {
        List<String> command = new ArrayList<>(List.of(Endpoint.need("HGTEST_CLUSTER")));
        command.addAll(Arrays.asList(args));
        try {
            process = new ProcessBuilder(command)
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        commands = new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8);
        nodes = answer("nodes").stream().map(Cluster::node).toList();
    }

    private static Endpoint node(String address) {
        return Endpoint.parse("node", address, null, null);
    }

    private List<String> answer(String to) {
        try {
            String line = answers.readLine();
            if (line == null || !line.startsWith(to)) {
                throw new IllegalStateException("the cluster answered " + line + ", not " + to);
            }
            List<String> words = Arrays.asList(line.split(" "));
            return words.subList(1, words.size());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private List<String> ask(String command, String answer) {
        try {
            commands.write(command + "\n");
            commands.flush();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return answer(answer);
    }

    /** Kills the leader as a crash does. */
    Endpoint killLeader() {
        return node(ask("kill", "killed").get(0));
    }

    /** The leader, when one serves and the others follow it. */
    Endpoint leader() {
        return node(ask("leader", "leader").get(0));
    }

    /** Starts the node again that was killed. */
    void restart() {
        ask("restart", "restarted");
    }

    /** Starts a load balancer for the nodes. */
    Endpoint balance() {
        return node(ask("balance", "balancer").get(0));
    }

    /** How many calls the nodes decided by their failure policy. */
    long degraded() {
        return Long.parseLong(ask("degraded", "degraded").get(0));
    }

    @Override
    public void close() {
        try {
            commands.close();
            if (!process.waitFor(30, TimeUnit.SECONDS) || process.exitValue() != 0) {
                throw new IllegalStateException("a node crashed, or did not stop in order");
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
