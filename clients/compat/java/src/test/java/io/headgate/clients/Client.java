package io.headgate.clients;

import java.util.List;

/**
 * A library under test, with replies as Long, String, null, List and, in RESP3, Map with names as keys.
 */
interface Client extends AutoCloseable {

    /** Runs one command. An error of the server comes as the library's exception. */
    Object run(String... command);

    /** Sends commands at once and returns their replies in order. */
    List<Object> pipeline(List<String[]> commands);

    /** The exception by which the library tells an error of the server. */
    Class<? extends RuntimeException> serverError();

    /** The lib-name that the library sends. */
    String libName();

    @Override
    void close();
}
