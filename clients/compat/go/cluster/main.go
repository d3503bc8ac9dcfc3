// Command cluster runs three Headgate nodes for a test in another language, and
// kills their leader when it is told to:
//
//	HGTEST_BIN=path [HGTEST_GROUPS=number] cluster [argument of headgate serve ...]
//
// It answers on standard output, in lines:
//
//	(start)     nodes host:port host:port host:port
//	kill        killed host:port     the leader, by SIGKILL
//	leader      leader host:port     when one serves and the others follow it
//	restart     restarted            the killed node, and all follow the leader
//	balance     balancer host:port   starts a load balancer for the nodes
//	degraded    degraded number      calls that the nodes decided by their failure policy
//	(end)                            stops the nodes
//
// Anything that fails ends it with a message and status 1.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/headgate-io/headgate/internal/hgtest"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	if os.Getenv("HGTEST_BIN") == "" {
		return errors.New("HGTEST_BIN is not set")
	}
	defer hgtest.Clean()
	c, err := hgtest.StartCluster(args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	fmt.Println("nodes", strings.Join(c.Addrs(), " "))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := obey(c, lines.Text()); err != nil {
			return err
		}
	}
	return nil
}

func obey(c *hgtest.Cluster, command string) error {
	switch command {
	case "kill":
		s, err := c.KillLeader()
		if err != nil {
			return err
		}
		fmt.Println("killed", s.Addr)
	case "leader":
		s, err := c.Leader()
		if err != nil {
			return err
		}
		fmt.Println("leader", s.Addr)
	case "restart":
		if err := c.Restart(); err != nil {
			return err
		}
		fmt.Println("restarted")
	case "balance":
		addr, err := c.Balance()
		if err != nil {
			return err
		}
		fmt.Println("balancer", addr)
	case "degraded":
		n, err := c.Degraded()
		if err != nil {
			return err
		}
		fmt.Println("degraded", n)
	default:
		return fmt.Errorf("unknown command %q", command)
	}
	return nil
}
