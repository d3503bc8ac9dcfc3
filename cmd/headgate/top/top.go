package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// interval is how often figures are read and shown.
const interval = time.Second

// Size of a frame that is not shown on a terminal.
const (
	plainWidth  = 120
	plainHeight = 40
)

// Once writes one frame, with the rates of one second.
func Once(ctx context.Context, c *Client, out io.Writer) error {
	s := &state{host: c.Host()}
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	told := make(chan heard)
	go c.listen(listening, func(h heard) {
		select {
		case told <- h:
		case <-listening.Done():
		}
	})
	for s.prev == nil {
		r, err := c.read(ctx, s.last)
		if err != nil {
			return err
		}
		s.took(r, nil)
		for wait := time.After(interval); s.prev == nil && wait != nil; {
			select {
			case h := <-told:
				s.hear(h)
			case <-wait:
				wait = nil
			case <-ctx.Done():
				return nil
			}
		}
	}
	return write(out, s.frame(plainWidth, plainHeight, time.Now()), nil)
}

// result is a reading or its error.
type result struct {
	r   *reading
	err error
}

// Run shows frames until ctx is done, or until somebody types q. A failure of the first
// reading is an error; later failures are shown.
func Run(ctx context.Context, c *Client, in, out *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &state{host: c.Host()}
	first, err := c.read(ctx, nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	s.took(first, nil)
	screen, err := open(in, out, cancel)
	if err != nil {
		return err
	}
	defer screen.close()
	told, results := make(chan heard), make(chan result)
	go c.listen(ctx, func(h heard) {
		select {
		case told <- h:
		case <-ctx.Done():
		}
	})
	go func() {
		last := first
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
			r, err := c.read(ctx, last)
			if err == nil {
				last = r
			}
			select {
			case results <- result{r, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	draw := time.NewTicker(interval)
	defer draw.Stop()
	for {
		if err := screen.show(s); err != nil {
			return err
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return nil
			case h := <-told:
				s.hear(h)
			case got := <-results:
				s.took(got.r, got.err)
				waiting = false
			case <-draw.C:
				waiting = false
			}
		}
	}
}

// screen is where frames are shown.
type screen struct {
	out      *os.File
	terminal bool // out is a terminal; otherwise frames follow each other
	colours  bool
	restore  func()
}

// Sequences that begin and end the use of a terminal. It shows another page, without cursor
// and without wrapping lines.
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leave = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// open prepares a screen. On a terminal, quit is called when somebody types q.
func open(in, out *os.File, quit func()) (*screen, error) {
	s := &screen{out: out, restore: func() {}}
	if _, _, s.terminal = sizeOf(out); !s.terminal {
		return s, nil
	}
	s.colours = os.Getenv("NO_COLOR") == ""
	restore, typing := unbuffered(in)
	s.restore = restore
	if typing {
		go func() {
			key := make([]byte, 1)
			for {
				if n, err := in.Read(key); err != nil || n > 0 && (key[0] == 'q' || key[0] == 'Q') {
					quit()
					return
				}
			}
		}()
	}
	_, err := io.WriteString(out, enter)
	return s, err
}

func (s *screen) close() {
	if s.terminal {
		// An error means that the terminal has gone.
		_, _ = io.WriteString(s.out, leave)
	}
	s.restore()
}

// show shows a frame of now.
func (s *screen) show(st *state) error {
	width, height, ok := sizeOf(s.out)
	if !ok || width == 0 || height == 0 {
		width, height = plainWidth, plainHeight
	}
	lines := st.frame(width, height, time.Now())
	if !s.terminal {
		return write(s.out, append(lines, line{}), nil)
	}
	// The cursor goes home. Each line clears its rest, and the last one what is below.
	return write(s.out, lines, func(l line, last bool) string {
		text := l.text
		if s.colours && l.style != plain {
			text = codes[l.style] + text + "\x1b[0m"
		}
		text += "\x1b[K"
		if last {
			return text + "\x1b[J"
		}
		return text + "\r\n"
	})
}

// write writes lines at once. form returns the bytes of a line; nil writes plain lines.
func write(out io.Writer, lines []line, form func(l line, last bool) string) error {
	var b strings.Builder
	if form != nil {
		b.WriteString("\x1b[H")
	}
	for i, l := range lines {
		if form == nil {
			b.WriteString(strings.TrimRight(l.text, " ") + "\n")
		} else {
			b.WriteString(form(l, i == len(lines)-1))
		}
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("show a frame: %w", err)
	}
	return nil
}
