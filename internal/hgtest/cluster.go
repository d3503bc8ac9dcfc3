package hgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// clusterNodes is the least number of nodes that survive the loss of one.
const clusterNodes = 3

// settleTimeout is how long a cluster may take until a leader serves and the
// others follow it. It takes one or two seconds.
const settleTimeout = 30 * time.Second

// Cluster is three servers that replicate. Their failure policy is closed
// unless it is set: every answer is a decision of their leader.
type Cluster struct {
	Nodes []*Server

	dir  string
	dead *Server // killed by KillLeader and not restarted
}

// StartCluster starts a cluster and waits until it has settled. args are
// further arguments of headgate serve, for all nodes.
func StartCluster(args ...string) (*Cluster, error) {
	parent, err := tempDir()
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	if c.dir, err = os.MkdirTemp(parent, "cluster"); err != nil {
		return nil, err
	}
	nodes, err := Nodes(c.dir, clusterNodes, append([]string{"--on-failure", "closed"}, args...)...)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		s := &Server{Addr: n.Addr, Cluster: n.Cluster, HTTP: n.HTTP, GRPC: n.GRPC, args: n.Args}
		if err := s.start(); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
		c.Nodes = append(c.Nodes, s)
	}
	if _, err := c.Leader(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Addrs are the addresses of all nodes, dead or alive, as an application would
// configure them.
func (c *Cluster) Addrs() []string {
	var list []string
	for _, s := range c.Nodes {
		list = append(list, s.Addr)
	}
	return list
}

// Leader waits until one node serves as leader, every running node is ready, and the
// leader tells clients so and knows all other running nodes. It returns the leader.
func (c *Cluster) Leader() (*Server, error) {
	var running []*Server
	for _, s := range c.Nodes {
		if s != c.dead {
			running = append(running, s)
		}
	}
	var why error
	for deadline := time.Now().Add(settleTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, s := range running {
			if why = c.agree(s, running); why == nil {
				return s, nil
			}
		}
	}
	return nil, fmt.Errorf("no leader that all follow within %v: %w", settleTimeout, why)
}

// agree returns why leader does not serve as the leader of the running nodes.
func (c *Cluster) agree(leader *Server, running []*Server) error {
	for _, s := range running {
		want := "following"
		if s == leader {
			want = "leading"
		}
		role, told, err := s.topology()
		if err != nil {
			return err
		}
		if role != want || len(told) < len(running) || told[0] != leader.Cluster {
			return fmt.Errorf("%s is %s and tells of %v", s.Addr, role, told)
		}
		if err := s.ready(); err != nil {
			return err
		}
	}
	return nil
}

// ready returns why the server is not ready. One that leads may not know yet that all
// can read what is new.
func (s *Server) ready() error {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	reply, err := client.Get("http://" + s.HTTP + "/readyz")
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: /readyz is %s", s.Addr, reply.Status)
	}
	return nil
}

// topology is a node's role in INFO replication, and the addresses that it
// gives to clients of Redis Cluster, the leader's first.
func (s *Server) topology() (role string, addrs []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	info, err := client.Info(ctx, "replication").Result()
	if err != nil {
		return "", nil, err
	}
	_, role, _ = strings.Cut(info, "headgate_role:")
	role, _, _ = strings.Cut(role, "\r\n")
	shards, err := client.ClusterShards(ctx).Result()
	if err != nil || len(shards) == 0 {
		return role, nil, err
	}
	for _, n := range shards[0].Nodes { // the master is the first
		addrs = append(addrs, net.JoinHostPort(n.IP, strconv.FormatInt(n.Port, 10)))
	}
	return role, addrs, nil
}

// KillLeader kills the leader, as a crash does, and returns it.
func (c *Cluster) KillLeader() (*Server, error) {
	if c.dead != nil {
		return nil, errors.New("two of three nodes have no leader")
	}
	leader, err := c.Leader()
	if err != nil {
		return nil, err
	}
	leader.Kill()
	c.dead = leader
	return leader, nil
}

// Restart starts the node that was killed and waits until the cluster has
// settled.
func (c *Cluster) Restart() error {
	if err := c.dead.Restart(); err != nil {
		return err
	}
	c.dead = nil
	_, err := c.Leader()
	return err
}

// Stop stops the nodes that run and removes their data. Its error names those
// that had crashed.
func (c *Cluster) Stop() error {
	var errs []error
	for _, s := range c.Nodes {
		if s != c.dead {
			errs = append(errs, s.Stop())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}
