// Package top shows in a terminal what a node does now: `headgate top`. It reads the HTTP
// port as any other client does.
package top

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/server/events"
	"github.com/headgate-io/headgate/server/web/admin"
)

const (
	// readTimeout bounds one reading.
	readTimeout = 2 * time.Second
	// historyAge is how old the history may be before it is read again. A node adds a point
	// each 5 s.
	historyAge = 5 * time.Second
	// eventsPause is the wait before a stream of events that has ended is opened again.
	eventsPause = 2 * time.Second
	// maxAnswer bounds an answer, and maxEvent one line of the stream, in bytes.
	maxAnswer = 8 << 20
	maxEvent  = 1 << 20
	// topKeys is how many keys are read.
	topKeys = 20
)

// Client reads the HTTP port of a node.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// NewClient returns a client for the URL of a node's HTTP port. token may be empty.
func NewClient(target, token string) (*Client, error) {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("want the URL of the HTTP port, such as http://127.0.0.1:7380")
	}
	return &Client{u, token, &http.Client{
		// A redirect is not Headgate's, and must not get the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Host returns the host and port of the node.
func (c *Client) Host() string { return c.base.Host }

// request sends a GET request. The caller closes the body of the answer, whose status is
// 200.
func (c *Client) request(ctx context.Context, path, query string, header ...string) (*http.Response, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := c.http.Do(r)
	if err != nil {
		// The address is said once.
		if inner := new(url.Error); errors.As(err, &inner) {
			err = inner.Err
		}
		if inner := new(net.OpError); errors.As(err, &inner) {
			err = inner.Err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("no answer in time")
		}
		return nil, fmt.Errorf("%s: %w", c.base.Host, err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, c.refused(path, answer)
}

// refused returns the error for an answer that is not 200.
func (c *Client) refused(path string, answer *http.Response) error {
	var problem struct{ Detail string }
	_ = json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&problem) // without it, Detail is ""
	why := answer.Status
	if problem.Detail != "" {
		why += ", " + problem.Detail
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		why += ": give a token with the right to see, in HEADGATE_HTTP_SEE_TOKEN or with --token"
	case http.StatusServiceUnavailable:
	default:
		why += ": is this the HTTP port of a Headgate server?"
	}
	return fmt.Errorf("%s%s: %s", c.base.Host, path, why)
}

// get reads a JSON answer.
func (c *Client) get(ctx context.Context, path, query string, into any) error {
	answer, err := c.request(ctx, path, query)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("%s%s: %w", c.base.Host, path, err)
	}
	return nil
}

// ranked is a key in RL.TOP's ranking.
type ranked struct {
	Key     string `json:"key"`
	Count   int64  `json:"count"`
	Blocked int64  `json:"blocked_ms"`
}

// reading is what a node has answered about one moment.
type reading struct {
	at     time.Time
	now    admin.Now
	keys   []ranked
	counts []admin.LimitCount
	// past is the history, which was read at pastAt.
	past   []admin.Point
	pastAt time.Time
}

// read makes a reading. It takes the history from the reading before if that is not too
// old. before may be nil.
func (c *Client) read(ctx context.Context, before *reading) (*reading, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r := &reading{at: time.Now()}
	if err := c.get(ctx, "/v1/now", "", &r.now); err != nil {
		return nil, err
	}
	var top struct{ Top []ranked }
	if err := c.get(ctx, "/v1/top", "by=denied&count="+strconv.Itoa(topKeys), &top); err != nil {
		return nil, err
	}
	var counts struct{ Limits []admin.LimitCount }
	if err := c.get(ctx, "/v1/counts", "", &counts); err != nil {
		return nil, err
	}
	r.keys, r.counts = top.Top, counts.Limits
	if before != nil && r.at.Sub(before.pastAt) < historyAge {
		r.past, r.pastAt = before.past, before.pastAt
		return r, nil
	}
	var history struct{ Points []admin.Point }
	if err := c.get(ctx, "/v1/history", "", &history); err != nil {
		return nil, err
	}
	r.past, r.pastAt = history.Points, r.at
	return r, nil
}

// heard is an event, or the state of the stream of events.
type heard struct {
	event events.Event
	lost  int64 // events that are missing before the next
	err   error // why the stream is not open; nil with an event
}

// listen passes events to tell until ctx is done, the kept ones first. After the end of a
// stream it opens another.
func (c *Client) listen(ctx context.Context, tell func(heard)) {
	last := "0" // the id of the last event
	for {
		err := c.stream(ctx, &last, tell)
		if ctx.Err() != nil {
			return
		}
		tell(heard{err: err})
		select {
		case <-ctx.Done():
			return
		case <-time.After(eventsPause):
		}
	}
}

// stream reads one stream of events, from the event after *last on.
func (c *Client) stream(ctx context.Context, last *string, tell func(heard)) error {
	answer, err := c.request(ctx, "/v1/events", "", "Last-Event-ID", *last)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxEvent)
	kind := ""
	for lines.Scan() {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(name) {
		case "id":
			*last = string(value)
		case "event":
			kind = string(value)
		case "data":
			var h heard
			if kind == "lost" {
				var n struct{ Lost int64 }
				err = json.Unmarshal(value, &n)
				h.lost = n.Lost
			} else {
				err = json.Unmarshal(value, &h.event)
			}
			if err != nil {
				return fmt.Errorf("read an event: %w", err)
			}
			tell(h)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	return errors.New("the stream of events has ended")
}

// clean returns a text in which a terminal executes nothing: names come from clients.
func clean(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unprintable reports whether a terminal may do something for r other than show it.
func unprintable(r rune) bool { return !strconv.IsPrint(r) }
