package web

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/events"
)

// # Streams of events
//
// A stream consists of Server-Sent Events. A stream has no queue: all streams read the
// log's ring of recent events, each at its own pace. A client that falls behind by more
// than the ring learns how many events it lost. So does a client that reconnects with the
// id of its last event. The server cuts off a client that does not read.
//
// A stream writes at most each streamGap, so that a flood of events does not wake each
// stream for each event: a post would have to do that on behalf of a decision.

const (
	// maxStreams bounds the open streams. TestFiftyConsoles measures what they cost.
	maxStreams = 64
	// streamGap is the least time between two writes of a stream that is not behind.
	streamGap = 100 * time.Millisecond
	// streamPause is the longest time without output on a stream. Proxies close streams
	// that are idle for a minute.
	streamPause = 15 * time.Second
	// streamEvents and streamBytes bound one write to a stream.
	streamEvents = 256
	streamBytes  = 64 << 10
)

// fieldLastEvent is the header field in which a browser that reconnects sends the id of the
// last event that it saw.
const fieldLastEvent = "Last-Event-ID"

var (
	errStreams   = &problem{http.StatusServiceUnavailable, "BUSY", "too many streams of events at a time"}
	errLastEvent = errors.New(fieldLastEvent + " must be the id of an event")
)

// streams serves the events of a log.
type streams struct {
	log    *events.Log
	places semaphore
	// ending is closed when streams must end.
	ending <-chan struct{}
}

// stream answers GET /v1/events.
func (a *api) stream(w http.ResponseWriter, r *http.Request) {
	if _, p := a.admit(r, access.RightSee); p != nil {
		sendProblem(w, p)
		return
	}
	from := a.streams.log.Newest(0)
	if last := r.Header.Get(fieldLastEvent); last != "" {
		id, err := strconv.ParseInt(last, 10, 64)
		if err != nil || id < 0 {
			sendProblem(w, badRequest(errLastEvent))
			return
		}
		from = id + 1
	}
	if !a.streams.places.take() {
		sendProblem(w, errStreams)
		return
	}
	defer a.streams.places.done()
	control := http.NewResponseController(w)
	// In tests of handlers, without a connection, there is no deadline.
	_ = control.SetReadDeadline(time.Time{})
	w.Header()["Content-Type"] = []string{"text/event-stream"}
	w.Header()["Cache-Control"] = noStore
	w.Header()["X-Accel-Buffering"] = []string{"no"} // otherwise nginx would buffer the stream
	w.Header()["Connection"] = []string{"close"}     // otherwise a stop of the server would wait for another request on this connection
	w.WriteHeader(http.StatusOK)
	a.streams.serve(r, from, func(b []byte) error {
		if _, err := w.Write(b); err != nil {
			return err
		}
		return control.Flush()
	})
}

// serve writes the events from the id next on, until the client goes or the streams must
// end.
func (s *streams) serve(r *http.Request, next int64, write func([]byte) error) {
	stop := s.log.Listen()
	defer stop()
	alive := time.NewTicker(streamPause)
	defer alive.Stop()
	b := []byte(": events of this node\n\n")
	var lines []events.Line
	for behind := false; !s.ended(); {
		if err := write(b); err != nil { // the client has gone, or does not read
			return
		}
		if !behind {
			select {
			case <-time.After(streamGap):
			case <-r.Context().Done():
				return
			case <-s.ending:
				return
			}
		}
		for b = b[:0]; len(b) == 0; {
			var lost int64
			var more <-chan struct{}
			lines, next, lost, more = s.log.Read(lines[:0], next, streamEvents, streamBytes)
			behind = next < s.log.Newest(0)
			if b = appendStream(b, lines, lost); len(b) > 0 {
				break
			}
			select {
			case <-more:
			case <-alive.C:
				b = append(b, ":\n\n"...) // a comment
			case <-r.Context().Done():
				return
			case <-s.ending:
				return
			}
		}
	}
}

// ended reports whether the streams must end.
func (s *streams) ended() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// appendStream appends events in the format of Server-Sent Events. Before them it appends
// how many events were lost.
func appendStream(b []byte, lines []events.Line, lost int64) []byte {
	if lost > 0 {
		b = append(b, "event: lost\ndata: {\"lost\":"...)
		b = append(strconv.AppendInt(b, lost, 10), "}\n\n"...)
	}
	for i := range lines {
		l := &lines[i]
		b = strconv.AppendInt(append(b, "id: "...), l.ID, 10)
		b = append(append(b, "\nevent: "...), l.Type...)
		b = append(append(b, "\ndata: "...), l.JSON...)
		b = append(b, "\n\n"...)
	}
	return b
}
