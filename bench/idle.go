package main

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// idleRow is what open ports for HTTP and gRPC that nobody asks cost clients of the
// Redis protocol.
type idleRow struct {
	Name string `json:"name"`
	// Open are closed loops on a server with both ports and idleClients on each, Closed
	// on one without.
	Open   []cost `json:"open"`
	Closed []cost `json:"closed"`
}

// idleClients have a connection to each of the ports, and asked on it once.
const idleClients = 100

// measureIdle measures both servers by turns.
func (b *bench) measureIdle(ctx context.Context, dir string) ([]*idleRow, error) {
	addrs, err := subprocess.Addrs("127.0.0.1", 2)
	if err != nil {
		return nil, err
	}
	open, err := startHeadgate(dir, b.bin.headgate, "--grpc-listen", addrs[0])
	if err != nil {
		return nil, err
	}
	defer open.stop()
	closed, err := startProcess(dir, "headgate-closed", addrs[1], b.bin.headgate, "serve", "--listen", addrs[1], "--http-listen", "")
	if err != nil {
		return nil, err
	}
	defer closed.stop()
	for range idleClients {
		for _, addr := range []string{open.http, addrs[0]} {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				return nil, err
			}
			defer nc.Close()
			if addr == open.http {
				if _, err := io.WriteString(nc, "GET /healthz HTTP/1.1\r\nHost: bench\r\n\r\n"); err != nil {
					return nil, err
				}
			}
		}
	}
	throttle := throttleArgs("CL.THROTTLE", 1)("key:"+streamKey, daily(limit))
	var rows []*idleRow
	for _, pipeline := range []int{streamPipeline, 1} {
		row := &idleRow{Name: fmt.Sprintf("CL.THROTTLE at pipeline %d", pipeline)}
		rows = append(rows, row)
		contestants := []struct {
			*stream
			to *[]cost
		}{{newStream(open, [][]string{throttle}, uint64(b.keys), 0), &row.Open}, {newStream(closed, [][]string{throttle}, uint64(b.keys), 0), &row.Closed}}
		for round := -1; round < 2*b.runs; round++ {
			for i := range contestants {
				s := contestants[(i+round+2)%2] // who is first changes
				s.pipeline = pipeline
				c, err := s.run(ctx, b.runTime/2)
				if err != nil {
					return rows, err
				}
				if round >= 0 {
					*s.to = append(*s.to, c)
				}
			}
		}
		b.logf("%s: %.0f/s with idle ports, %.0f/s without", row.Name, median(row.Open, costRate), median(row.Closed, costRate))
	}
	return rows, nil
}

func (r *idleRow) target() target {
	of, to := median(r.Open, costRate), median(r.Closed, costRate)
	return target{Name: fmt.Sprintf("%s while HTTP and gRPC are open, %d idle clients each, against a server without", r.Name, idleClients),
		Value: of / to, Unit: "x", Floor: 0.99, Goal: 1, Detail: fmt.Sprintf("%.0f/s against %.0f/s", of, to)}
}
