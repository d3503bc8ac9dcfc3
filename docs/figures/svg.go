package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// Geometry, in pixels.
const (
	width, height = 760, 300
	left, right   = 44, 744 // of the time axis
	callsBase     = 96      // where the ticks of the calls stand
	outputBase    = 124     // where those of delayed calls stand
	plotTop       = 160
	plotBase      = 264
	plotMost      = 20 // units at plotTop
)

// Colours that differ in brightness too, for those who do not see hue.
const (
	admitted = "#1b7f4b"
	denied   = "#d9897a"
	output   = "#1f4e9c"
	grey     = "#666"
)

func x(t time.Duration) float64 {
	return left + float64(right-left)*t.Seconds()/length.Seconds()
}

func y(units int) float64 {
	return plotBase - float64(plotBase-plotTop)*float64(units)/plotMost
}

// draw returns the picture as SVG.
func (f *figure) draw() ([]byte, error) {
	calls, err := f.run()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`, width, height)
	line(`<title>%s</title>`, f.title)
	line(`<rect width="%d" height="%d" fill="white"/>`, width, height)
	line(`<text x="%d" y="24" font-size="15" font-weight="bold">%s</text>`, left, f.title)

	passed, delayed := 0, false
	for _, c := range calls {
		if c.ok {
			passed++
			delayed = delayed || c.runs > c.at
		}
	}
	line(`<text x="%d" y="46"><tspan fill="%s">| %d calls admitted</tspan>  <tspan dx="12" fill="%s">| %d denied</tspan>%s</text>`,
		left, admitted, passed, denied, len(calls)-passed, outputLegend(delayed))
	for _, c := range calls {
		tall, colour := 14, denied
		if c.ok {
			tall, colour = 34, admitted
		}
		line(`<path d="M%.1f %dv-%d" stroke="%s" stroke-width="1.5"/>`, x(c.at), callsBase, tall, colour)
		if c.ok && delayed && c.runs < length {
			line(`<path d="M%.1f %dv-20" stroke="%s" stroke-width="1.5"/>`, x(c.runs), outputBase, output)
		}
	}
	line(`<path d="M%d %dH%d" stroke="%s"/>`, left, callsBase, right, grey)
	if delayed {
		line(`<path d="M%d %dH%d" stroke="%s"/>`, left, outputBase, right, grey)
	}

	f.drawCurve(line, calls)
	line(`</svg>`)
	return b.Bytes(), nil
}

func outputLegend(delayed bool) string {
	if !delayed {
		return ""
	}
	return fmt.Sprintf(`  <tspan dx="12" fill="%s">| put out, after delay_ms</tspan>`, output)
}

// drawCurve draws how many units ran within f.span before each moment.
func (f *figure) drawCurve(line func(string, ...any), calls []call) {
	line(`<text x="%d" y="%d">%s</text>`, left, plotTop-10, f.measure)
	for _, units := range []int{0, limit, plotMost} {
		dash := ""
		if units == limit {
			dash = ` stroke-dasharray="5 4"`
		}
		line(`<path d="M%d %.1fH%d" stroke="%s" stroke-width="0.7"%s/>`, left, y(units), right, grey, dash)
		line(`<text x="%d" y="%.1f" text-anchor="end" fill="%s">%d</text>`, left-6, y(units)+4, grey, units)
	}
	for t := time.Duration(0); t <= length; t += 5 * time.Second {
		line(`<path d="M%.1f %dv5" stroke="%s"/>`, x(t), plotBase, grey)
		line(`<text x="%.1f" y="%d" text-anchor="middle" fill="%s">%.0f s</text>`, x(t), plotBase+19, grey, t.Seconds())
	}
	path := fmt.Sprintf("M%d %.1f", left, y(0))
	most := 0
	for _, s := range steps(calls, f.span) {
		path += fmt.Sprintf("H%.1fV%.1f", x(s.at), y(s.units))
		most = max(most, s.units)
	}
	line(`<path d="%sH%d" fill="none" stroke="%s" stroke-width="2"/>`, path, right, output)
	line(`<text x="%d" y="%d" text-anchor="end" fill="%s">at most %d</text>`, right, plotTop-10, output, most)
}

// level is how many units count from a moment on.
type level struct {
	at    time.Duration
	units int
}

// steps returns where the count of calls that ran less than span ago changes.
func steps(calls []call, span time.Duration) []level {
	var changes []level
	for _, c := range calls {
		if c.ok {
			changes = append(changes, level{c.runs, 1}, level{c.runs + span, -1})
		}
	}
	// At one moment what leaves goes before what comes.
	slices.SortStableFunc(changes, func(a, b level) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.units - b.units
	})
	var out []level
	units := 0
	for _, c := range changes {
		if c.at > length {
			break
		}
		units += c.units
		if n := len(out); n > 0 && out[n-1].at == c.at {
			out[n-1].units = units
		} else {
			out = append(out, level{c.at, units})
		}
	}
	return out
}
