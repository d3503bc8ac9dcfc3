package hgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
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
	lost int64   // what Degraded counted of killed nodes

	balancer net.Listener // of Balance
}

// StartCluster starts a cluster and waits until it has settled. args are
// further arguments of headgate serve, for all nodes. $HGTEST_GROUPS is the number
// of groups that clusters have if args do not say it.
func StartCluster(args ...string) (*Cluster, error) {
	parent, err := tempDir()
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	if c.dir, err = os.MkdirTemp(parent, "cluster"); err != nil {
		return nil, err
	}
	all := []string{"--on-failure", "closed"}
	if groups := os.Getenv("HGTEST_GROUPS"); groups != "" {
		all = append(all, "--groups", groups)
	}
	nodes, err := Nodes(c.dir, clusterNodes, append(all, args...)...)
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
// leader tells clients so and knows all other running nodes. It returns the leader. With
// several groups it is the leader of group 0, and the nodes agree on those of the others.
func (c *Cluster) Leader() (*Server, error) {
	running := c.Running()
	var why error
	for deadline := time.Now().Add(settleTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, s := range running {
			if why = agree(s, running); why == nil {
				return s, nil
			}
		}
	}
	return nil, fmt.Errorf("no leader that all follow within %v: %w", settleTimeout, why)
}

// Running are the nodes that have not been killed.
func (c *Cluster) Running() []*Server {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(s *Server) bool { return s == c.dead })
}

// agree returns why leader does not serve as the leader of the running nodes.
func agree(leader *Server, running []*Server) error {
	var masters []string
	for _, s := range running {
		want := "following"
		if s == leader {
			want = "leading"
		}
		role, shards, err := s.topology()
		if err != nil {
			return err
		}
		if role != want || len(shards) == 0 || shards[0][0] != leader.Cluster {
			return fmt.Errorf("%s is %s and tells of %v", s.Addr, role, shards)
		}
		var told []string
		for _, nodes := range shards {
			if len(nodes) < len(running) || !slices.ContainsFunc(running, func(r *Server) bool { return r.Cluster == nodes[0] }) {
				return fmt.Errorf("%s tells of %v", s.Addr, shards)
			}
			told = append(told, nodes[0])
		}
		if masters == nil {
			masters = told
		} else if !slices.Equal(masters, told) {
			return fmt.Errorf("%s tells of the leaders %v, another node of %v", s.Addr, told, masters)
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
// gives to clients of Redis Cluster, for each group the leader's first.
func (s *Server) topology() (role string, shards [][]string, err error) {
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
	told, err := client.Do(ctx, "CLUSTER", "SLOTS").Slice()
	if err != nil {
		return role, nil, err
	}
	for _, slots := range told { // of a group: first, last, the master, other nodes
		var nodes []string
		for _, n := range slots.([]any)[2:] {
			nodes = append(nodes, fmt.Sprintf("%v:%v", n.([]any)[:2]...))
		}
		shards = append(shards, nodes)
	}
	return role, shards, nil
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
	degraded, err := leader.degraded()
	if err != nil {
		return nil, err
	}
	leader.Kill()
	c.dead, c.lost = leader, c.lost+degraded
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
	if c.balancer != nil {
		c.balancer.Close()
	}
	var errs []error
	for _, s := range c.Running() {
		errs = append(errs, s.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

// Balance starts a TCP load balancer for the nodes and returns its address. Each connection
// goes to the next node that is ready.
func (c *Cluster) Balance() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	c.balancer = ln
	go func() {
		for next := 0; ; next++ {
			client, err := ln.Accept()
			if err != nil {
				return // by Stop
			}
			go c.forward(client, next)
		}
	}()
	return ln.Addr().String(), nil
}

// forward forwards a connection to the first ready node from next on.
func (c *Cluster) forward(client net.Conn, next int) {
	defer client.Close()
	for i := range c.Nodes {
		s := c.Nodes[(next+i)%len(c.Nodes)]
		if s.ready() != nil {
			continue
		}
		server, err := net.Dial("tcp", s.Addr)
		if err != nil {
			continue
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, client) // an error ends the connection
			server.Close()
		}()
		_, _ = io.Copy(client, server)
		return
	}
}

// Degraded is how many calls the nodes have decided by their failure policy. Of a killed
// node, it leaves out the calls of its last moments.
func (c *Cluster) Degraded() (int64, error) {
	sum := c.lost
	for _, s := range c.Running() {
		n, err := s.degraded()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (s *Server) degraded() (int64, error) {
	client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	info, err := client.Info(context.Background(), "stats").Result()
	if err != nil {
		return 0, err
	}
	_, text, _ := strings.Cut(info, "decisions_degraded:")
	text, _, _ = strings.Cut(text, "\r\n")
	return strconv.ParseInt(text, 10, 64)
}
