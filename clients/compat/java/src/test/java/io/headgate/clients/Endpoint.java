package io.headgate.clients;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.TrustManagerFactory;

/** Where and how to reach a server. Password and authority may be null. */
record Endpoint(String name, String host, int port, String password, Path authority) {

    private static final AtomicInteger KEYS = new AtomicInteger();

    static Endpoint plain() {
        return parse("plain", need("HGTEST_ADDR"), null, null);
    }

    static Endpoint auth() {
        return parse("auth", need("HGTEST_AUTH_ADDR"), need("HGTEST_PASSWORD"), null);
    }

    static Endpoint tls() {
        return parse("tls", need("HGTEST_TLS_ADDR"), null, Path.of(need("HGTEST_TLS_CA")));
    }

    static Endpoint parse(String name, String address, String password, Path authority) {
        int colon = address.lastIndexOf(':');
        return new Endpoint(
                name, address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)), password, authority);
    }

    /** A variable of the environment that clients/compat/run.sh sets. */
    static String need(String name) {
        String value = System.getenv(name);
        if (value == null) {
            throw new IllegalStateException(name + " is not set: start the tests with clients/compat/run.sh java");
        }
        return value;
    }

    /** A key that no other test uses. */
    static String newKey() {
        return "clients-java:" + ProcessHandle.current().pid() + ":" + KEYS.incrementAndGet();
    }

    Endpoint withPassword(String other) {
        return new Endpoint(name, host, port, other, authority);
    }

    /** Trust in the authority, and in no other. */
    TrustManagerFactory trust() throws GeneralSecurityException, IOException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream pem = Files.newInputStream(authority)) {
            store.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        return trust;
    }

    @Override
    public String toString() {
        return name;
    }
}
