package io.headgate.clients;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SslOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;

/** Lettuce: one connection that all threads share. */
final class LettuceAdapter implements Client {

    final RedisClient client;
    final StatefulRedisConnection<String, String> connection;

    LettuceAdapter(Endpoint at, int protocol) {
        client = open(at, protocol);
        connection = client.connect();
    }

    static RedisClient open(Endpoint at, int protocol) {
        RedisURI.Builder uri = RedisURI.builder().withHost(at.host()).withPort(at.port()).withTimeout(Duration.ofSeconds(10));
        if (at.password() != null) {
            uri.withPassword(at.password().toCharArray());
        }
        ClientOptions.Builder options = ClientOptions.builder()
                .protocolVersion(protocol == 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2);
        if (at.authority() != null) {
            uri.withSsl(true);
            try {
                options.sslOptions(SslOptions.builder().trustManager(at.trust()).build());
            } catch (GeneralSecurityException | IOException e) {
                throw new IllegalStateException(e);
            }
        }
        RedisClient client = RedisClient.create(uri.build());
        client.setOptions(options.build());
        return client;
    }

    static ProtocolKeyword keyword(String name) {
        return new ProtocolKeyword() {
            @Override
            public byte[] getBytes() {
                return name.getBytes(StandardCharsets.UTF_8);
            }

            @Override
            public String toString() {
                return name;
            }
        };
    }

    static CommandArgs<String, String> arguments(String[] command) {
        CommandArgs<String, String> arguments = new CommandArgs<>(StringCodec.UTF8);
        for (int i = 1; i < command.length; i++) {
            arguments.add(command[i]);
        }
        return arguments;
    }

    private RedisFuture<Object> send(String... command) {
        return connection.async().dispatch(keyword(command[0]), new ReplyOutput(), arguments(command));
    }

    @Override
    public Object run(String... command) {
        return connection.sync().dispatch(keyword(command[0]), new ReplyOutput(), arguments(command));
    }

    @Override
    public List<Object> pipeline(List<String[]> commands) {
        connection.setAutoFlushCommands(false);
        List<RedisFuture<Object>> futures = commands.stream().map(this::send).toList();
        connection.flushCommands();
        connection.setAutoFlushCommands(true);
        if (!LettuceFutures.awaitAll(Duration.ofSeconds(10), futures.toArray(RedisFuture[]::new))) {
            throw new IllegalStateException("no reply within 10 seconds");
        }
        List<Object> replies = new ArrayList<>();
        for (RedisFuture<Object> future : futures) {
            try {
                replies.add(future.get());
            } catch (ExecutionException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
        return replies;
    }

    @Override
    public Class<? extends RuntimeException> serverError() {
        return RedisCommandExecutionException.class;
    }

    @Override
    public String libName() {
        return "Lettuce";
    }

    @Override
    public void close() {
        connection.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }
}
