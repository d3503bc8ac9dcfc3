/** Says where the server under test is, and waits. */
final class Target {
    static final String HOST = System.getenv("DROPIN_HOST");
    static final int PORT = Integer.parseInt(System.getenv().getOrDefault("DROPIN_PORT", "0"));
    static final String URL = "redis://" + HOST + ":" + PORT;

    private Target() {}

    static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
