package server

import (
	"slices"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// tracking is what a client has asked CLIENT TRACKING for; see invalidation.go.
type tracking struct {
	on                           bool
	bcast, optin, optout, noloop bool
	redirect                     int64 // a client's id, or 0
	prefixes                     []string
}

func cmdClientTracking(c *conn, args [][]byte) {
	on, ok := c.onOff(args[2])
	if !ok {
		return
	}
	t, ok := c.parseTracking(args[3:])
	if !ok {
		return
	}
	if t.on = on; !on {
		t = tracking{}
	}
	c.setTracking(t)
	c.w.OK()
}

// maxPrefixes bounds what CLIENT TRACKING remembers, with maxClientInfo.
const maxPrefixes = 64

// parseTracking parses the options of CLIENT TRACKING, or replies an error.
func (c *conn) parseTracking(args [][]byte) (t tracking, ok bool) {
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
			if len(t.prefixes) == maxPrefixes || len(args[i]) > maxClientInfo {
				c.error("ERR at most 64 prefixes of at most 1024 bytes")
				return t, false
			}
			t.prefixes = append(t.prefixes, string(args[i]))
		case command.EqualFold(args[i], "redirect") && more:
			i++
			id, ok := resp.ParseInt(args[i])
			switch {
			case !ok:
				c.error(errNotAnInt)
				return t, false
			case t.redirect != 0:
				c.error("ERR A client can only redirect to a single other client")
				return t, false
			case !slices.ContainsFunc(c.srv.connections(), func(o *conn) bool { return int64(o.id) == id }):
				c.error("ERR The client ID you want redirect to does not exist")
				return t, false
			}
			t.redirect = id
		default:
			c.error(errSyntax)
			return t, false
		}
	}
	switch {
	case len(t.prefixes) > 0 && !t.bcast:
		c.error("ERR PREFIX option requires BCAST mode to be enabled")
	case t.bcast && (t.optin || t.optout):
		c.error("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case t.optin && t.optout:
		c.error("ERR You can't specify both OPTIN mode and OPTOUT mode")
	default:
		return t, true
	}
	return t, false
}

func cmdClientCaching(c *conn, args [][]byte) {
	t := c.meta.Load().tracking
	yes := command.EqualFold(args[2], "yes")
	switch {
	case !t.on:
		c.error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	case !yes && !command.EqualFold(args[2], "no"):
		c.error(errSyntax)
	case yes && !t.optin:
		c.error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case !yes && !t.optout:
		c.error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	default:
		c.caching = true
		c.w.OK()
	}
}

func cmdClientTrackingInfo(c *conn, _ [][]byte) {
	t := c.meta.Load().tracking
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
	c.w.Map(3)
	c.w.BulkString("flags")
	c.w.Set(len(flags))
	for _, f := range flags {
		c.w.BulkString(f)
	}
	c.w.BulkString("redirect")
	c.w.Int(t.redirected())
	c.w.BulkString("prefixes")
	c.w.Array(len(t.prefixes))
	for _, p := range t.prefixes {
		c.w.BulkString(p)
	}
}

// redirected is the id of the client that is to be told, 0 for the client
// itself, or -1 for none.
func (t *tracking) redirected() int64 {
	if !t.on {
		return -1
	}
	return t.redirect
}

func cmdClientGetRedir(c *conn, _ [][]byte) {
	t := c.meta.Load().tracking
	c.w.Int(t.redirected())
}
