import org.junit.jupiter.api.Test;

/** Passes: with it Maven has fetched all that it needs to run tests. */
class InstalledTest {
    @Test
    void installed() {}
}
