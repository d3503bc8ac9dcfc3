package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

// used returns the processor time of a process.
func (p *process) used(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	require.NoError(t, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')'):]))
	user, err := strconv.Atoi(fields[12])
	require.NoError(t, err)
	system, err := strconv.Atoi(fields[13])
	require.NoError(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond // ticks of 1/100 s
}

// console makes the requests of the page Now, as often as the page does, until ctx is done.
// See static/now.js and static/app.js of the console.
func console(ctx context.Context, client *http.Client, base string) error {
	ask := func(method, path, body string) (answer []byte, err error) {
		q, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		if body != "" {
			q.Header.Set("Content-Type", "application/json")
		}
		a, err := client.Do(q)
		if err != nil {
			return nil, err
		}
		defer a.Body.Close()
		if answer, err = io.ReadAll(a.Body); err == nil && a.StatusCode != http.StatusOK && a.StatusCode != http.StatusNotFound {
			err = fmt.Errorf("%s: %s %s", path, a.Status, answer)
		}
		return answer, err
	}
	for beat := 0; ctx.Err() == nil; beat++ {
		var err error
		get := func(path string) (answer []byte) {
			if err == nil {
				answer, err = ask("GET", path, "")
			}
			return answer
		}
		if beat%2 == 0 {
			get("/v1/now")
		}
		if beat%5 == 0 {
			get("/v1/history")
		}
		if beat%3 == 0 {
			get("/v1/counts?count=10")
			var list struct{ Top []struct{ Key string } }
			if text := get("/v1/top?count=10&by=denied"); err == nil {
				err = json.Unmarshal(text, &list)
			}
			for _, one := range list.Top { // the page does so for some of them
				body, _ := json.Marshal(map[string]string{"key": one.Key})
				if err == nil {
					_, err = ask("POST", "/v1/explain", string(body))
				}
			}
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// costs are what a phase of the load has cost.
type costs struct {
	median time.Duration // of the time that a client waited for a decision
	used   time.Duration // processor time of the server
}

// phase measures decisions for some time, while rest of the load goes on.
func phase(t *testing.T, p *process, lasts time.Duration) costs {
	t.Helper()
	c := dial(t, "tcp", p.redis)
	var waits []time.Duration
	before := p.used(t)
	for began := time.Now(); time.Since(began) < lasts; time.Sleep(2 * time.Millisecond) {
		start := time.Now()
		require.Equal(t, "*6", c.do("RL.LIMIT", "probe", "1000000", "1s"))
		waits = append(waits, time.Since(start))
		for range 6 {
			_, err := c.line()
			require.NoError(t, err)
		}
	}
	slices.Sort(waits)
	return costs{waits[len(waits)/2], p.used(t) - before}
}

// Fifty open consoles slow no decision: each makes the requests of its page and reads the
// stream of events, while as many events arise as there can be, 1000 per second. One page
// takes less than 1 % of a processor.
func TestFiftyConsoles(t *testing.T) {
	if testing.Short() {
		t.Skip("measures processor time for 12 s, which the race detector changes: make main runs it")
	}
	const consoles, lasts, keys = 50, 6 * time.Second, 1000
	p := start(t)
	p.call(t, "RL.POLICY", "SET", "api", "{limits: {user: {by: user, rate: 1/day}}}")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	// Each second 1000 callers are denied, one after the other.
	parts := make([][]byte, 50)
	for i := range keys {
		parts[i%len(parts)] = resp.AppendCommand(parts[i%len(parts)], []string{"RL.CHECK", "api", "user", fmt.Sprint("u", i)})
	}
	load := dial(t, "tcp", p.redis)
	require.NoError(t, load.SetDeadline(time.Now().Add(5*waitLimit)))
	running.Go(func() { _, _ = io.Copy(io.Discard, load) }) // ends with the connection
	running.Go(func() {
		defer load.Close()
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := load.Write(parts[i%len(parts)]); err != nil {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second / time.Duration(len(parts))):
			}
		}
	})

	time.Sleep(2 * time.Second)
	alone := phase(t, p, lasts)

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: consoles}}
	var failure atomic.Pointer[error]
	var events atomic.Int64
	for range consoles {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.http+"/v1/events", nil)
		require.NoError(t, err)
		stream, err := client.Do(q)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, stream.StatusCode)
		running.Go(func() {
			defer stream.Body.Close()
			room := make([]byte, 64<<10)
			for {
				n, err := stream.Body.Read(room)
				events.Add(int64(bytes.Count(room[:n], []byte("\nevent: denied"))))
				if err != nil {
					return
				}
			}
		})
		running.Go(func() {
			if err := console(ctx, client, "http://"+p.http); err != nil {
				failure.Store(&err)
			}
		})
		time.Sleep(20 * time.Millisecond) // they are not opened at once
	}
	events.Store(0)
	beside := phase(t, p, lasts)
	seen := float64(events.Load()) / consoles / lasts.Seconds()
	cancel()
	running.Wait()
	if err := failure.Load(); err != nil {
		require.NoError(t, *err)
	}
	page := (beside.used - alone.used) / consoles
	t.Logf("a decision: %v, beside %d consoles %v; a page: %.2f %% of a processor; %.0f events per second on each stream",
		alone.median, consoles, beside.median, 100*page.Seconds()/lasts.Seconds(), seen)
	require.Greater(t, seen, 500.0, "the streams have the events")
	require.Less(t, page.Seconds()/lasts.Seconds(), 0.01)
	require.Less(t, beside.median, 2*alone.median+100*time.Microsecond)
}
