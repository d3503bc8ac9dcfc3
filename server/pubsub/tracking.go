package pubsub

import (
	"errors"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// tracking is the state of CLIENT TRACKING. invalidation.go sends its messages.
type tracking struct {
	on                           bool
	bcast, optin, optout, noloop bool
	redirect                     int64 // a client's id, or 0
	prefixes                     []string
}

// Track is CLIENT TRACKING.
func (s *Subscriber) Track(call *command.Call) {
	args := call.Args
	on := command.EqualFold(args[2], "on")
	if !on && !command.EqualFold(args[2], "off") {
		call.Error(command.ErrSyntax.Error())
		return
	}
	t, err := s.hub.parseTracking(args[3:])
	if err != nil {
		call.Error(err.Error())
		return
	}
	if t.on = on; !on {
		t = tracking{}
	}
	s.setTracking(t)
	call.W.OK()
}

// maxPrefixes and maxPrefix bound what CLIENT TRACKING remembers.
const (
	maxPrefixes = 64
	maxPrefix   = 1024
)

// parseTracking parses the options of CLIENT TRACKING. Its errors are replies.
func (h *Hub) parseTracking(args [][]byte) (t tracking, err error) {
	for i := 0; i < len(args); i++ {
		more := i+1 < len(args)
		switch {
		case command.EqualFold(args[i], "bcast"):
			t.bcast = true
		case command.EqualFold(args[i], "optin"):
			t.optin = true
		case command.EqualFold(args[i], "optout"):
			t.optout = true
		case command.EqualFold(args[i], "noloop"):
			t.noloop = true
		case command.EqualFold(args[i], "prefix") && more:
			i++
			if len(t.prefixes) == maxPrefixes || len(args[i]) > maxPrefix {
				return t, errors.New("ERR at most 64 prefixes of at most 1024 bytes")
			}
			t.prefixes = append(t.prefixes, string(args[i]))
		case command.EqualFold(args[i], "redirect") && more:
			i++
			id, ok := resp.ParseInt(args[i])
			switch {
			case !ok:
				return t, command.ErrNotInteger
			case t.redirect != 0:
				return t, errors.New("ERR A client can only redirect to a single other client")
			case h.find(uint64(id)) == nil:
				return t, errors.New("ERR The client ID you want redirect to does not exist")
			}
			t.redirect = id
		default:
			return t, command.ErrSyntax
		}
	}
	switch {
	case len(t.prefixes) > 0 && !t.bcast:
		return t, errors.New("ERR PREFIX option requires BCAST mode to be enabled")
	case t.bcast && (t.optin || t.optout):
		return t, errors.New("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case t.optin && t.optout:
		return t, errors.New("ERR You can't specify both OPTIN mode and OPTOUT mode")
	}
	return t, nil
}

// Caching is CLIENT CACHING.
func (s *Subscriber) Caching(call *command.Call) {
	t := &s.Shown().tracking
	yes := command.EqualFold(call.Args[2], "yes")
	switch {
	case !t.on:
		call.Error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	case !yes && !command.EqualFold(call.Args[2], "no"):
		call.Error(command.ErrSyntax.Error())
	case yes && !t.optin:
		call.Error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case !yes && !t.optout:
		call.Error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	default:
		s.caching = true
		call.W.OK()
	}
}

// TrackingInfo is CLIENT TRACKINGINFO.
func (s *Subscriber) TrackingInfo(call *command.Call) {
	w, t := call.W, &s.Shown().tracking
	flags := []string{"off"}
	if t.on {
		flags[0] = "on"
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"bcast", t.bcast}, {"optin", t.optin}, {"optout", t.optout}, {"noloop", t.noloop}} {
		if f.set {
			flags = append(flags, f.name)
		}
	}
	w.Map(3)
	w.BulkString("flags")
	w.Set(len(flags))
	for _, f := range flags {
		w.BulkString(f)
	}
	w.BulkString("redirect")
	w.Int(s.Shown().Redirected())
	w.BulkString("prefixes")
	w.Array(len(t.prefixes))
	for _, p := range t.prefixes {
		w.BulkString(p)
	}
}

// GetRedir is CLIENT GETREDIR.
func (s *Subscriber) GetRedir(call *command.Call) { call.W.Int(s.Shown().Redirected()) }
