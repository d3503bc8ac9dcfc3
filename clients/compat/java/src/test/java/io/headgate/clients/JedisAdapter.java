package io.headgate.clients;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import javax.net.ssl.SSLContext;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.util.KeyValue;

/** Jedis: a client over a pool of eight connections. */
final class JedisAdapter implements Client {

    final RedisClient client;

    JedisAdapter(Endpoint at, int protocol) {
        client = open(at, protocol);
    }

    static RedisClient open(Endpoint at, int protocol) {
        DefaultJedisClientConfig.Builder config = DefaultJedisClientConfig.builder()
                .protocol(protocol == 3 ? RedisProtocol.RESP3 : RedisProtocol.RESP2)
                .password(at.password());
        if (at.authority() != null) {
            try {
                SSLContext context = SSLContext.getInstance("TLS");
                context.init(null, at.trust().getTrustManagers(), null);
                config.ssl(true).sslSocketFactory(context.getSocketFactory());
            } catch (GeneralSecurityException | IOException e) {
                throw new IllegalStateException(e);
            }
        }
        ConnectionPoolConfig pool = new ConnectionPoolConfig();
        pool.setMaxTotal(8);
        return RedisClient.builder()
                .hostAndPort(at.host(), at.port())
                .clientConfig(config.build())
                .poolConfig(pool)
                .build();
    }

    static ProtocolCommand command(String name) {
        byte[] raw = name.getBytes(StandardCharsets.UTF_8);
        return () -> raw;
    }

    static String[] arguments(String[] command) {
        return Arrays.copyOfRange(command, 1, command.length);
    }

    @Override
    public Object run(String... command) {
        return value(client.sendCommand(command(command[0]), arguments(command)));
    }

    @Override
    public List<Object> pipeline(List<String[]> commands) {
        try (AbstractPipeline pipeline = client.pipelined()) {
            List<Response<Object>> replies = commands.stream()
                    .map(c -> pipeline.sendCommand(command(c[0]), arguments(c)))
                    .toList();
            pipeline.sync();
            return replies.stream().map(reply -> value(reply.get())).toList();
        }
    }

    /** Makes strings of bytes, and maps of the pairs in which Jedis hands over a RESP3 map. */
    static Object value(Object reply) {
        if (reply instanceof byte[] text) {
            return new String(text, StandardCharsets.UTF_8);
        }
        if (reply instanceof List<?> list) {
            if (!list.isEmpty() && list.get(0) instanceof KeyValue) {
                Map<String, Object> map = new LinkedHashMap<>();
                for (Object entry : list) {
                    KeyValue<?, ?> pair = (KeyValue<?, ?>) entry;
                    map.put((String) value(pair.getKey()), value(pair.getValue()));
                }
                return map;
            }
            return list.stream().map(JedisAdapter::value).collect(Collectors.toList());
        }
        return reply;
    }

    @Override
    public Class<? extends RuntimeException> serverError() {
        return JedisDataException.class;
    }

    @Override
    public String libName() {
        return "jedis";
    }

    @Override
    public void close() {
        client.close();
    }
}
