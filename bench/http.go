package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// httpReport is what checks over HTTP cost, beside net/http itself.
type httpReport struct {
	Check    []cost `json:"check"`
	Bare     []cost `json:"bare"`
	Auth     []cost `json:"auth"`
	BareAuth []cost `json:"bare_auth"`
	// Batch and Pipeline are in checks.
	Batch    []cost `json:"batch"`
	Pipeline []cost `json:"pipeline"`
}

const (
	httpConnections = 50
	// httpBatch is how many checks a batch has, and a pipeline.
	httpBatch = 100
)

// httpRequest is a POST of a body, or without one a GET.
func httpRequest(path, body string) []byte {
	if body == "" {
		return []byte("GET " + path + " HTTP/1.1\r\nHost: bench\r\nX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /things\r\n\r\n")
	}
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// httpLoad is a closed loop of one request, in which each streamKey is a random
// caller.
type httpLoad struct {
	label   string
	p       *process
	addr    string
	request []byte
	keys    uint64
	each    int // how many checks a request has
	to      *[]cost
}

// run sends requests for the time d. An answer that is not 200 ends it.
func (l *httpLoad) run(ctx context.Context, d time.Duration) (cost, error) {
	c, err := l.p.driven(ctx, d, httpConnections, func(ctx context.Context, _ int) (int64, error) {
		n, err := l.connection(ctx)
		return n * int64(l.each), err
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", l.label, err)
	}
	return c, err
}

// connection sends until ctx ends, and returns how many answers came.
func (l *httpLoad) connection(ctx context.Context) (answers int64, err error) {
	nc, err := net.Dial("tcp", l.addr)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	request := bytes.Clone(l.request)
	holes := keyHoles(request)
	in := bufio.NewReaderSize(nc, 64<<10)
	for ctx.Err() == nil {
		for _, at := range holes {
			putKey(request[at:], rand.Uint64N(l.keys))
		}
		if err := nc.SetDeadline(time.Now().Add(askTimeout)); err != nil {
			return answers, err
		}
		if _, err := nc.Write(request); err != nil {
			return answers, err
		}
		if err := skipAnswer(in); err != nil {
			return answers, err
		}
		answers++
	}
	return answers, nil
}

// keyHoles are the places of streamKey in a request.
func keyHoles(request []byte) (holes []int) {
	for at := 0; ; at += len(streamKey) {
		i := bytes.Index(request[at:], []byte(streamKey))
		if i < 0 {
			return holes
		}
		at += i
		holes = append(holes, at)
	}
}

// putKey writes a number over a streamKey.
func putKey(hole []byte, n uint64) {
	for i := len(streamKey) - 1; i >= 0; i-- {
		hole[i] = byte('0' + n%10)
		n /= 10
	}
}

// skipAnswer reads an answer, which must be a 200.
func skipAnswer(in *bufio.Reader) error {
	length, chunked := 0, false
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")):
			return fmt.Errorf("answered %q", line)
		case isField(line, "Content-Length: "):
			if length, err = strconv.Atoi(strings.TrimSpace(string(line[len("Content-Length: "):]))); err != nil {
				return err
			}
		case isField(line, "Transfer-Encoding: chunked"):
			chunked = true
		}
		if len(line) == len("\r\n") {
			break
		}
	}
	for chunked {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(strings.TrimSpace(string(line)), 16, 32)
		if err != nil {
			return err
		}
		if _, err := in.Discard(int(size) + len("\r\n")); err != nil || size == 0 {
			return err
		}
	}
	_, err := in.Discard(length)
	return err
}

// isField reports whether a line of a header begins so, in any case: Envoy has none of
// its own.
func isField(line []byte, begin string) bool {
	return len(line) >= len(begin) && strings.EqualFold(string(line[:len(begin)]), begin)
}

// serveBare answers every request with a body of some bytes, on addr, until ctx ends:
// net/http and nothing else.
func serveBare(ctx context.Context, addr string, size int) error {
	body := []byte(strings.Repeat("x", size))
	s := &http.Server{Addr: addr, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// startBare runs serveBare, or serveBareGRPC for the kind grpc, as a process of its own.
func startBare(kind string, size int) (*process, error) {
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	run, err := subprocess.Start(subprocess.Command(self, "-bare-"+kind, addrs[0], "-bare-size", strconv.Itoa(size)))
	if err != nil {
		return nil, err
	}
	p := &process{Process: run, name: "bare " + kind, http: addrs[0]}
	return p, p.waitHTTP()
}

// waitHTTP waits until the HTTP port of a process is open. If it is not, the process is
// ended.
func (p *process) waitHTTP() error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		nc, err := net.Dial("tcp", p.http)
		if err == nil {
			nc.Close()
			return nil
		}
		if time.Now().After(deadline) || !p.Running() {
			p.stop()
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
}

// measureHTTP measures checks over HTTP on servers of their own, which take turns.
func (b *bench) measureHTTP(ctx context.Context, dir string) (*httpReport, error) {
	rep := &httpReport{}
	p, err := startHeadgate(dir, b.bin.headgate)
	if err != nil {
		return rep, err
	}
	defer p.stop()
	if err := p.setPolicy("p", checkPolicy(1)); err != nil {
		return rep, err
	}
	if err := p.setPolicy("edge", "{limits: {ip: {by: ip, rate: 1000000000/day}}}"); err != nil {
		return rep, err
	}
	const check = `{"policy":"p","attributes":{"user":"user` + streamKey + `"}}`
	one := httpRequest("/v1/check", check)
	size, err := answerSize(p.http, one)
	if err != nil {
		return rep, err
	}
	bare, err := startBare("http", size)
	if err != nil {
		return rep, err
	}
	defer bare.stop()
	empty, err := startBare("http", 0)
	if err != nil {
		return rep, err
	}
	defer empty.stop()
	auth := httpRequest("/v1/auth/edge", "")
	loads := []*httpLoad{
		{"POST /v1/check", p, p.http, one, uint64(b.keys), 1, &rep.Check},
		{"bare handler", bare, bare.http, one, uint64(b.keys), 1, &rep.Bare},
		{"GET /v1/auth", p, p.http, auth, 1, 1, &rep.Auth},
		{"bare handler without a body", empty, empty.http, auth, 1, 1, &rep.BareAuth},
		{"batch of 100", p, p.http, httpRequest("/v1/check:batch", `{"checks":[`+check+strings.Repeat(","+check, httpBatch-1)+`]}`), uint64(b.keys), httpBatch, &rep.Batch},
	}
	pipeline := newStream(p, [][]string{{"RL.CHECK", "p", "user", "user" + streamKey}}, uint64(b.keys), 0)
	pipeline.pipeline = httpBatch
	for round := -1; round < max(3, b.runs-2); round++ {
		for _, l := range loads {
			c, err := l.run(ctx, b.runTime/2)
			if err != nil {
				return rep, err
			}
			if round >= 0 {
				*l.to = append(*l.to, c)
				b.logf("%-44s %9.0f/s  %6.2f µs CPU", l.label, c.Rate, micros(c.CPU))
			}
		}
		c, err := pipeline.run(ctx, b.runTime/2)
		if err != nil {
			return rep, err
		}
		if round >= 0 {
			rep.Pipeline = append(rep.Pipeline, c)
			b.logf("%-44s %9.0f/s  %6.2f µs CPU", "RL.CHECK, pipeline 100", c.Rate, micros(c.CPU))
		}
	}
	return rep, ctx.Err()
}

// answerSize is how long the body of an answer is.
func answerSize(addr string, request []byte) (int, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	if _, err := nc.Write(request); err != nil {
		return 0, err
	}
	a, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("answered %d: %s", a.StatusCode, body)
	}
	return len(body), err
}

func (r *httpReport) targets() []target {
	var list []target
	for _, v := range []struct {
		name        string
		of, to      []cost
		floor, goal float64
	}{
		{"POST /v1/check, 50 connections, against a bare handler that answers as many bytes", r.Check, r.Bare, 0.55, 0.85},
		{"forward-auth, 50 connections, against a bare handler", r.Auth, r.BareAuth, 0.55, 0.9},
		{"batch of 100 checks over HTTP against RL.CHECK at pipeline 100", r.Batch, r.Pipeline, 0.3, 0.6},
	} {
		if len(v.to) > 0 {
			of, to := median(v.of, costRate), median(v.to, costRate)
			list = append(list, target{Name: v.name, Value: of / to, Unit: "x", Floor: v.floor, Goal: v.goal, Detail: fmt.Sprintf("%.0f/s against %.0f/s", of, to)})
		}
	}
	return list
}

func (r *httpReport) write(line func(string, ...any)) {
	line("\n## Checks over HTTP, 50 connections\n\n| | server CPU µs | per second |\n|---|---|---|")
	for _, v := range []struct {
		name string
		of   []cost
	}{{"POST /v1/check", r.Check}, {"bare handler", r.Bare}, {"GET /v1/auth", r.Auth}, {"bare handler without a body", r.BareAuth},
		{"batch of 100, each check", r.Batch}, {"RL.CHECK, pipeline 100", r.Pipeline}} {
		line("| %s | %.2f | %.0f |", v.name, micros(median(v.of, costCPU)), median(v.of, costRate))
	}
}
