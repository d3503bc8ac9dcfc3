package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// gatewayRow is a gateway of examples/ in front of a handler, whose requests Headgate
// is asked about.
type gatewayRow struct {
	// Gateway is nginx or Envoy, Asked which Headgate.
	Gateway string `json:"gateway"`
	Asked   string `json:"asked"`
	// With are closed loops, Bare those where a handler that knows no limits is asked
	// in Headgate's place. Their CPU is the gateway's.
	With []cost `json:"with"`
	Bare []cost `json:"bare,omitempty"`
	// Rate is that of the open loops in requests a second, half of With's; WithP99 and
	// WithoutP99 are of each, the second where nobody is asked.
	Rate       float64         `json:"rate"`
	WithP99    []time.Duration `json:"with_p99_ns"`
	WithoutP99 []time.Duration `json:"without_p99_ns"`
}

// Names of the rows.
const (
	viaNginx     = "nginx"
	viaEnvoy     = "Envoy"
	askedOne     = "one node"
	askedCluster = "a follower of three"
)

// edits are texts of a file and what stands in their place, in pairs.
type edits []string

// write writes a file into dir under a name. It is an error if a text is not there.
func (e edits) write(file, dir, name string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := string(b)
	for i := 0; i < len(e); i += 2 {
		if !strings.Contains(text, e[i]) {
			return "", fmt.Errorf("%s has no %q", file, e[i])
		}
		text = strings.ReplaceAll(text, e[i], e[i+1])
	}
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// startGateway runs a gateway that listens on an address.
func startGateway(name, addr, program string, args ...string) (*process, error) {
	run, err := subprocess.Start(subprocess.Command(program, args...))
	if err != nil {
		return nil, err
	}
	p := &process{Process: run, name: name, http: addr}
	return p, p.waitHTTP()
}

// startNginx runs examples/nginx in front of an application. It asks a server, or, with
// "", nobody.
func (b *bench) startNginx(dir, name, app, asked string) (*process, error) {
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	if err != nil {
		return nil, err
	}
	if dir, err = os.MkdirTemp(dir, "nginx-"); err != nil {
		return nil, err
	}
	e := edits{"127.0.0.1:8000", addrs[0], "127.0.0.1:8080", app}
	if asked == "" {
		e = append(e, "auth_request /_headgate;", "")
	} else {
		e = append(e, "127.0.0.1:7380", asked)
	}
	conf, err := e.write(filepath.Join(b.root, "examples", "nginx", "headgate.conf"), dir, "headgate.conf")
	if err != nil {
		return nil, err
	}
	main := "daemon off; master_process off; pid " + dir + "/pid; events {}\nhttp { access_log off;\n"
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += temp + "_temp_path " + filepath.Join(dir, temp) + ";\n"
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(main+"include "+conf+"; }\n"), 0o600); err != nil {
		return nil, err
	}
	return startGateway(name, addrs[0], b.bin.nginx, "-p", dir, "-e", filepath.Join(dir, "errors"), "-c", file)
}

// startEnvoy does so with examples/envoy, whose own limit is lifted.
func (b *bench) startEnvoy(dir, name, app, asked string) (*process, error) {
	addrs, err := subprocess.Addrs("127.0.0.1", 2)
	if err != nil {
		return nil, err
	}
	e := edits{
		"max_tokens: 100, tokens_per_fill: 10,", "max_tokens: 1000000, tokens_per_fill: 1000000,", "domain: edge", "domain: envoy",
		"port_value: 8000", "port_value: " + port(addrs[0]), "port_value: 9901", "port_value: " + port(addrs[1]), "port_value: 8080", "port_value: " + port(app),
	}
	if asked == "" {
		e = append(e, `                  rate_limits:
                  - actions: [{remote_address: {}}]
                  - actions: [{request_headers: {header_name: x-api-key, descriptor_key: api_key}}]
`, "")
	} else {
		e = append(e, "port_value: 7382", "port_value: "+port(asked))
	}
	if dir, err = os.MkdirTemp(dir, "envoy-"); err != nil {
		return nil, err
	}
	conf, err := e.write(filepath.Join(b.root, "examples", "envoy", "envoy.yaml"), dir, "envoy.yaml")
	if err != nil {
		return nil, err
	}
	return startGateway(name, addrs[0], b.bin.envoy, "-c", conf, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error")
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// gatewayLimits are policies that admit every request, by name.
var gatewayLimits = map[string]string{
	"edge":  "{limits: {ip: {by: ip, rate: 1000000000/day}}}",
	"envoy": "{descriptors: [{key: remote_address, rate_limit: {unit: day, requests_per_unit: 1000000000}}]}",
}

// measureGateways measures gateways that ask one node, and a follower of a cluster.
func (b *bench) measureGateways(ctx context.Context, dir string) ([]*gatewayRow, error) {
	app, err := startBare("http", 0)
	if err != nil {
		return nil, err
	}
	defer app.stop()
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	if err != nil {
		return nil, err
	}
	p, err := startHeadgate(dir, b.bin.headgate, "--grpc-listen", addrs[0])
	if err != nil {
		return nil, err
	}
	rows, err := b.gatewaysOf(ctx, dir, askedOne, app, p, p.http, addrs[0])
	p.stop()
	if err != nil {
		return rows, err
	}
	c, err := startCluster(dir, "gateways", b.bin.headgate)
	if err != nil {
		return rows, err
	}
	defer c.stop()
	leader, err := c.settle()
	if err != nil {
		return rows, err
	}
	follower := c.followers(leader)[0]
	more, err := b.gatewaysOf(ctx, dir, askedCluster, app, leader.process, follower.web, follower.calls)
	return append(rows, more...), err
}

// gatewaysOf measures all gateways that ask a Headgate by its addresses for HTTP and
// gRPC, whose policies are set on p.
func (b *bench) gatewaysOf(ctx context.Context, dir, asked string, app, p *process, web, calls string) ([]*gatewayRow, error) {
	for name, text := range gatewayLimits {
		if err := p.setPolicy(name, text); err != nil {
			return nil, err
		}
	}
	var rows []*gatewayRow
	for _, g := range []struct {
		name, program, addr string
		start               func(dir, name, app, asked string) (*process, error)
	}{{viaNginx, b.bin.nginx, web, b.startNginx}, {viaEnvoy, b.bin.envoy, calls, b.startEnvoy}} {
		if g.program == "" {
			continue
		}
		row := &gatewayRow{Gateway: g.name, Asked: asked}
		contestants := []*httpLoad{
			{label: g.name + ", which asks " + asked, addr: g.addr, to: &row.With},
			{label: g.name + ", which asks nobody", to: new([]cost)},
		}
		if g.name == viaNginx && asked == askedOne {
			contestants = append(contestants, &httpLoad{label: g.name + ", which asks a bare handler", addr: app.http, to: &row.Bare})
		}
		err := b.measureGateway(ctx, row, contestants, func(name, asked string) (*process, error) {
			return g.start(dir, name, app.http, asked)
		})
		if rows = append(rows, row); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// measureGateway measures a row. Of the contestants, whose addr is whom they ask, the
// first two are with and without Headgate.
func (b *bench) measureGateway(ctx context.Context, row *gatewayRow, contestants []*httpLoad, start func(name, asked string) (*process, error)) error {
	for _, l := range contestants {
		p, err := start(l.label, l.addr)
		if p != nil {
			defer p.stop()
		}
		if err != nil {
			return err
		}
		l.p, l.addr, l.request, l.each = p, p.http, httpRequest("/things", ""), 1
	}
	rounds := max(3, b.runs-2)
	for round := -1; round < rounds; round++ {
		for _, l := range contestants {
			c, err := l.run(ctx, b.runTime/2)
			if err != nil {
				return err
			}
			if round >= 0 {
				*l.to = append(*l.to, c)
				b.logf("%-52s %9.0f/s", l.label, c.Rate)
			}
		}
	}
	row.Rate = median(row.With, costRate) / 2
	for range rounds {
		for i, to := range []*[]time.Duration{&row.WithP99, &row.WithoutP99} {
			wait, err := contestants[i].openLoop(ctx, b.runTime, row.Rate)
			if err != nil {
				return err
			}
			*to = append(*to, wait)
			b.logf("%-52s %9.0f µs p99 at %.0f/s", contestants[i].label, micros(wait), row.Rate)
		}
	}
	return nil
}

// openLoop sends requests at a rate for the time d, on httpConnections by turns. It
// returns the 99th percentile of the times from when each is due to its answer.
func (l *httpLoad) openLoop(ctx context.Context, d time.Duration, rate float64) (time.Duration, error) {
	each := time.Duration(httpConnections / rate * float64(time.Second))
	waits := make([][]time.Duration, httpConnections)
	failures := make([]error, httpConnections)
	var clients sync.WaitGroup
	begin := time.Now().Add(20 * time.Millisecond)
	for i := range httpConnections {
		clients.Go(func() {
			nc, err := net.Dial("tcp", l.addr)
			if err != nil {
				failures[i] = err
				return
			}
			defer nc.Close()
			in := bufio.NewReader(nc)
			due := begin.Add(each * time.Duration(i) / httpConnections)
			for ; due.Sub(begin) < d && ctx.Err() == nil; due = due.Add(each) {
				time.Sleep(time.Until(due))
				if err := l.ask(nc, in); err != nil {
					failures[i] = err
					return
				}
				waits[i] = append(waits[i], time.Since(due))
			}
		})
	}
	clients.Wait()
	all := slices.Concat(waits...)
	if len(all) == 0 {
		return 0, cmp.Or(errors.Join(failures...), errors.New("nothing was due"))
	}
	return quantile(all, 0.99), errors.Join(failures...)
}

// ask sends the request once, and waits for the answer.
func (l *httpLoad) ask(nc net.Conn, in *bufio.Reader) error {
	err := nc.SetDeadline(time.Now().Add(askTimeout))
	if err == nil {
		_, err = nc.Write(l.request)
	}
	if err == nil {
		err = skipAnswer(in)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", l.label, err)
	}
	return err
}

// added is how much Headgate adds to the 99th percentile.
func (r *gatewayRow) added() time.Duration {
	return max(0, median(r.WithP99, itself)-median(r.WithoutP99, itself))
}

func (r *gatewayRow) targets() []target {
	var list []target
	if len(r.Bare) > 0 {
		of, to := median(r.With, costRate), median(r.Bare, costRate)
		list = append(list, target{Name: "through nginx with auth_request, 50 connections, against one that asks a bare handler",
			Value: of / to, Unit: "x", Floor: 0.9, Goal: 0.97, Detail: fmt.Sprintf("%.0f/s against %.0f/s", of, to)})
	}
	if len(r.WithoutP99) > 0 {
		list = append(list, target{Name: fmt.Sprintf("%s at half of its peak asks %s about each request: added to the p99", r.Gateway, r.Asked),
			Value: r.added().Seconds() * 1000, Unit: " ms", Floor: 10, Goal: 2, AtMost: true,
			Detail: fmt.Sprintf("%.0f µs, %.0f µs where it asks nobody, at %.0f/s", micros(median(r.WithP99, itself)), micros(median(r.WithoutP99, itself)), r.Rate)})
	}
	return list
}
