package main

import (
	"bytes"
	"fmt"
	"strings"
)

// diagram is a picture of boxes and arrows, for README.md, docs/concepts.md and docs/how-it-works.md.
type diagram struct {
	name, title string
	height      int
	parts       []part
}

// part is an element of a diagram.
type part interface {
	draw(line func(string, ...any))
}

// box is a rectangle with lines of text. The first line is bold.
type box struct {
	x, y, w, h int
	fill       string
	text       string // lines, separated by line feeds
}

// arrow is a straight line with a head at its end, and a text above its middle.
type arrow struct {
	x1, y1, x2, y2 int
	text           string
}

// words are lines of text without a box.
type words struct {
	x, y   int
	colour string
	text   string
}

// Fills of boxes.
const (
	caller  = "#eef2f7"
	server  = "#e2f0e8"
	warning = "#fbe9e5"
	paper   = "#ffffff"
)

// lineHeight is the distance of lines of text, in pixels.
const lineHeight = 17

func (b box) draw(line func(string, ...any)) {
	line(`<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="%s"/>`, b.x, b.y, b.w, b.h, b.fill, grey)
	lines := strings.Split(b.text, "\n")
	top := b.y + (b.h-lineHeight*(len(lines)-1))/2 + 4
	for i, text := range lines {
		weight := ""
		if i == 0 {
			weight = ` font-weight="bold"`
		}
		line(`<text x="%d" y="%d" text-anchor="middle"%s>%s</text>`, b.x+b.w/2, top+i*lineHeight, weight, text)
	}
}

func (a arrow) draw(line func(string, ...any)) {
	line(`<path d="M%d %dL%d %d" stroke="%s" stroke-width="1.5" marker-end="url(#head)"/>`, a.x1, a.y1, a.x2, a.y2, output)
	if a.text != "" {
		line(`<text x="%d" y="%d" text-anchor="middle" fill="%s">%s</text>`, (a.x1+a.x2)/2, (a.y1+a.y2)/2-6, output, a.text)
	}
}

func (w words) draw(line func(string, ...any)) {
	for i, text := range strings.Split(w.text, "\n") {
		line(`<text x="%d" y="%d" fill="%s">%s</text>`, w.x, w.y+i*lineHeight, w.colour, text)
	}
}

// draw returns the diagram as SVG.
func (d *diagram) draw() ([]byte, error) {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="13">`, width, d.height)
	line(`<title>%s</title>`, d.title)
	line(`<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="%s"/></marker></defs>`, output)
	line(`<rect width="%d" height="%d" fill="white"/>`, width, d.height)
	for _, p := range d.parts {
		p.draw(line)
	}
	line(`</svg>`)
	return b.Bytes(), nil
}

func diagrams() []*diagram {
	return []*diagram{
		{"overview", "Services and gateways ask Headgate before they do the work", 250, []part{
			box{14, 20, 170, 60, caller, "your services\nGo, Node, Python, …"},
			box{14, 95, 170, 60, caller, "gateways\nnginx, Envoy, Caddy, …"},
			box{14, 170, 170, 60, caller, "jobs, scripts\nany Redis client"},
			arrow{186, 50, 346, 100, ""}, arrow{186, 125, 346, 125, "may user 42 go on?"}, arrow{186, 200, 346, 150, ""},
			box{350, 20, 230, 210, paper, ""},
			words{366, 44, grey, "Headgate: one node, or three"},
			box{366, 60, 198, 62, server, "policies\nwho may do how much"},
			box{366, 150, 198, 62, server, "counters\nwhat each key has used"},
			arrow{465, 124, 465, 147, ""},
			arrow{584, 92, 626, 62, ""}, arrow{584, 160, 626, 188, ""},
			box{630, 30, 120, 62, server, "yes\n95 are left"},
			box{630, 160, 120, 62, warning, "no\nagain in 400 ms"},
		}},
		{"limit", "Each key has a counter of its own", 200, []part{
			words{14, 30, grey, "RL.LIMIT user:42 100 1m COST 5"},
			box{14, 50, 150, 56, caller, "key\nuser:42"},
			box{14, 124, 150, 56, caller, "key\nuser:43"},
			arrow{166, 78, 296, 78, "cost 5"}, arrow{166, 152, 296, 152, "cost 1"},
			box{300, 50, 220, 56, server, "counter of user:42\n5 used, 95 left"},
			box{300, 124, 220, 56, server, "counter of user:43\n100 used, 0 left"},
			arrow{522, 78, 596, 78, ""}, arrow{522, 152, 596, 152, ""},
			box{600, 50, 146, 56, server, "allowed\n95 left"},
			box{600, 124, 146, 56, warning, "denied\nagain in 600 ms"},
		}},
		{"policy", "A policy chooses the limits of a call by its attributes", 232, []part{
			box{14, 76, 176, 88, caller, "call\nuser: ann\ntier: free\nip: 198.51.100.7"},
			arrow{192, 120, 276, 120, "RL.CHECK"},
			box{280, 14, 236, 204, paper, ""},
			words{296, 36, grey, "policy api"},
			box{296, 48, 204, 44, server, "limit user\nby user; free: 100/h"},
			box{296, 104, 204, 44, server, "limit address\nby ip; 10_000/h"},
			box{296, 160, 204, 44, server, "limit all\nfor all calls together; 1_000/s"},
			arrow{502, 70, 586, 70, ""}, arrow{502, 126, 586, 126, ""}, arrow{502, 182, 586, 182, ""},
			box{590, 48, 156, 44, caller, "counter\nuser=ann"},
			box{590, 104, 156, 44, caller, "counter\nip=198.51.100.7"},
			box{590, 160, 156, 44, caller, "counter\nall"},
		}},
		{"hold", "A hold: reserve an estimate, settle the real cost", 200, []part{
			box{14, 40, 130, 56, caller, "1. RL.RESERVE\nestimate: 4000"},
			box{314, 40, 130, 56, caller, "2. the work\nuses 1200"},
			box{614, 40, 132, 56, caller, "3. RL.COMMIT\nreal cost: 1200"},
			arrow{146, 68, 311, 68, "allowed"}, arrow{446, 68, 611, 68, "done"},
			box{14, 124, 130, 56, server, "limit of 6000\n2000 left"},
			box{314, 124, 130, 56, server, "limit of 6000\n2000 left"},
			box{614, 124, 132, 56, server, "limit of 6000\n4800 left"},
			arrow{79, 98, 79, 121, ""}, arrow{680, 98, 680, 121, ""},
			words{14, 24, grey, "If step 3 never comes, the hold ends after its time to live."},
		}},
		{"lease", "A lease moves units from the limit to a process", 190, []part{
			box{14, 50, 200, 90, server, "Headgate\nlimit of 1000\n600 left, 400 out"},
			arrow{216, 65, 436, 65, "RL.LEASE: 250 units"}, arrow{216, 130, 436, 130, "RL.LEASE: 150 units"},
			box{440, 20, 150, 60, caller, "process A\nspends 250 itself"},
			box{440, 115, 150, 60, caller, "process B\nspends 150 itself"},
			arrow{592, 50, 660, 50, ""}, arrow{592, 145, 660, 145, ""},
			words{668, 46, grey, "decides\nwithout a call"}, words{668, 141, grey, "decides\nwithout a call"},
		}},
		{"cluster", "Three nodes: the leader decides, a majority has each decision", 230, []part{
			box{14, 20, 130, 50, caller, "client"},
			box{14, 150, 130, 50, caller, "client"},
			arrow{146, 45, 266, 45, "asks"}, arrow{146, 175, 266, 175, "asks"},
			box{270, 14, 190, 62, server, "node n1: leader\ndecides, and replies"},
			box{270, 144, 190, 62, caller, "node n2: follower\nforwards to the leader"},
			box{556, 80, 190, 62, caller, "node n3: follower\nkeeps a copy"},
			arrow{330, 142, 330, 79, ""}, arrow{400, 78, 400, 141, ""}, arrow{462, 50, 552, 95, "log"},
			words{408, 116, output, "log"}, words{252, 116, output, "forwards"},
		}},
		{"failover", "What a client sees while a new leader is elected", 200, []part{
			box{14, 60, 226, 56, server, "the leader decides\nthe whole limit"},
			box{240, 60, 280, 56, warning, "no leader: the failure policy answers\nlocal, open or closed"},
			box{520, 60, 226, 56, server, "the new leader decides\nthe whole limit"},
			words{200, 30, output, "leader killed"}, arrow{240, 36, 240, 57, ""},
			words{478, 30, output, "new leader elected"}, arrow{520, 36, 520, 57, ""},
			words{14, 146, grey, "local: each node admits its share of what was left, and charges it to the new leader later\nopen: each node admits up to backstop times the limit\nclosed: each call gets an error, and the caller decides"},
		}},
		{"group", "Groups: the hash of a key selects its group, and each group has its own leader", 260, []part{
			words{14, 24, grey, "the key"}, words{206, 24, grey, "its hash slot"}, words{368, 24, grey, "its group"}, words{590, 24, grey, "the group's leader"},
			box{14, 36, 130, 56, caller, "key\nuser:45"}, box{14, 114, 130, 56, caller, "key\nuser:44"}, box{14, 192, 130, 56, caller, "key\nuser:42"},
			arrow{146, 64, 203, 64, "hash"}, arrow{146, 142, 203, 142, "hash"}, arrow{146, 220, 203, 220, "hash"},
			box{206, 36, 100, 56, paper, "slot\n3823"}, box{206, 114, 100, 56, paper, "slot\n7886"}, box{206, 192, 100, 56, paper, "slot\n15880"},
			arrow{308, 64, 365, 64, ""}, arrow{308, 142, 365, 142, ""}, arrow{308, 220, 365, 220, ""},
			box{368, 36, 160, 56, paper, "group 0\nslots 0 to 5460"}, box{368, 114, 160, 56, paper, "group 1\nslots 5461 to 10921"}, box{368, 192, 160, 56, paper, "group 2\nslots 10922 to 16383"},
			arrow{530, 64, 587, 64, ""}, arrow{530, 142, 587, 142, ""}, arrow{530, 220, 587, 220, ""},
			box{590, 36, 156, 56, server, "node n1\ndecides for group 0"}, box{590, 114, 156, 56, server, "node n2\ndecides for group 1"}, box{590, 192, 156, 56, server, "node n3\ndecides for group 2"},
		}},
	}
}
