package hgtest

import (
	"fmt"
	"os"
)

// Main runs the tests of m, a *testing.M, with servers beside them, and returns
// the exit code. It is not 0 if a server crashed or did not stop in order.
func Main(m interface{ Run() int }, servers **Trio) int {
	defer Clean()
	var err error
	if *servers, err = StartTrio(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := (*servers).Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
