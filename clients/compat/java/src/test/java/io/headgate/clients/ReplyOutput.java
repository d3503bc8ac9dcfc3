package io.headgate.clients;

import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.CommandOutput;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Any reply as Long, Double, Boolean, String, null, List or Map. Lettuce's outputs are each for one kind of reply: its
 * ObjectOutput takes no single string, and its NestedMultiOutput makes lists of maps.
 */
final class ReplyOutput extends CommandOutput<String, String, Object> {

    /** An array or map that is not complete yet. */
    private record Open(boolean map, int size, List<Object> values) {
        Object close() {
            if (!map) {
                return values;
            }
            Map<Object, Object> named = new LinkedHashMap<>();
            for (int i = 0; i < values.size(); i += 2) {
                named.put(values.get(i), values.get(i + 1));
            }
            return named;
        }
    }

    private final Deque<Open> open = new ArrayDeque<>();

    ReplyOutput() {
        super(StringCodec.UTF8, null);
    }

    private void add(Object value) {
        while (!open.isEmpty()) {
            Open top = open.peek();
            top.values().add(value);
            if (top.values().size() < top.size()) {
                return;
            }
            value = open.pop().close();
        }
        output = value;
    }

    private void open(boolean map, int size) {
        if (size < 0) {
            add(null);
        } else if (size == 0) {
            add(map ? Map.of() : List.of());
        } else {
            open.push(new Open(map, size, new ArrayList<>(size)));
        }
    }

    @Override
    public void set(ByteBuffer text) {
        add(text == null ? null : codec.decodeValue(text));
    }

    @Override
    public void set(long number) {
        add(number);
    }

    @Override
    public void set(double number) {
        add(number);
    }

    @Override
    public void set(boolean value) {
        add(value);
    }

    @Override
    public void multi(int count) {
        open(false, count);
    }

    @Override
    public void multiMap(int count) {
        open(true, 2 * count);
    }
}
