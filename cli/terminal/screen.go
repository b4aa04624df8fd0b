// Package terminal draws full-screen views in a terminal and reads its keys. It restores the
// terminal when a view is closed, also when the program is stopped and continued.
//
// What is drawn, and what keys mean, is up to the commands.
package terminal

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/gdamore/tcell/v3"
	"golang.org/x/term"
)

// ErrNone is that there is no terminal to draw on.
var ErrNone = errors.New("not a terminal")

// Names of keys; others have their names of tcell, and characters are themselves.
const (
	Interrupt = "Ctrl-C"
	Enter     = "Enter"
	Escape    = "Esc"
	Backspace = "Backspace"
	Tab       = "Tab"
	Up        = "Up"
	Down      = "Down"
	PageUp    = "PgUp"
	PageDown  = "PgDn"
	Home      = "Home"
	End       = "End"
	// Resize is that the terminal has another size, or lost what was drawn.
	Resize = "Resize"
)

// Screen is a terminal that shows a view. Only one goroutine may draw and close it.
type Screen struct {
	screen tcell.Screen
	keys   chan string
	closed chan struct{}
	group  sync.WaitGroup
}

// Is reports whether a file, or nothing else, is a terminal.
func Is(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Width is the width of the terminal of standard output, characters.
func Width() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width < 1 {
		return 80
	}
	return width
}

// Open shows an empty screen on the terminal of standard output, and hides what was there.
func Open(colors bool) (*Screen, error) {
	if !Is(os.Stdout) {
		return nil, fmt.Errorf("open terminal: %w: standard output", ErrNone)
	}
	open := tcell.NewStdIoTty
	if !Is(os.Stdin) {
		open = tcell.NewDevTty
	}
	tty, err := open()
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w: no keyboard: %w", ErrNone, err)
	}
	return openOn(tty, colors)
}

// openOn does not ask the terminal what it supports: not all answer, and the answers may arrive
// in the shell after the program has ended.
func openOn(tty tcell.Tty, colors bool) (*Screen, error) {
	options := []tcell.TerminfoScreenOption{tcell.OptNegotiation(false), tcell.OptSanitizeContent(true)}
	if !colors {
		options = append(options, tcell.OptColors(0))
	}
	screen, err := tcell.NewTerminfoScreenFromTty(tty, options...)
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	if err := screen.Init(); err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	s := &Screen{screen: screen, keys: make(chan string, 16), closed: make(chan struct{})}
	s.group.Go(s.read)
	return s, nil
}

// Keys returns the names of keys as they are pressed.
func (s *Screen) Keys() <-chan string { return s.keys }

// Close restores the terminal.
func (s *Screen) Close() {
	close(s.closed)
	s.screen.Fini()
	s.group.Wait()
}

// Draw shows the lines of a view, which must fit.
func (s *Screen) Draw(frame func(width, height int) []string) {
	s.screen.Clear()
	for y, line := range frame(s.screen.Size()) {
		x := 0
		for _, one := range spans(line) {
			x = s.put(x, y, one)
		}
	}
	s.screen.Show()
}

// put writes text and returns the column behind it.
func (s *Screen) put(x, y int, one span) int {
	width, _ := s.screen.Size()
	for rest, wide := one.text, 0; rest != "" && x < width; x += max(wide, 1) {
		rest, wide = s.screen.Put(x, y, rest, one.style)
	}
	return x
}

// read passes keys on until the screen is closed.
func (s *Screen) read() {
	for {
		select {
		case <-s.closed:
			return
		case event, open := <-s.screen.EventQ():
			if !open {
				return
			}
			name := s.name(event)
			if name == "" {
				continue
			}
			select {
			case s.keys <- name:
			case <-s.closed:
				return
			}
		}
	}
}

// name is empty for what no view needs to know.
func (s *Screen) name(event tcell.Event) string {
	switch e := event.(type) {
	case *tcell.EventResize:
		return Resize
	case *tcell.EventKey:
		switch {
		case !e.Pressed():
			return ""
		case e.Key() == tcell.KeyRune:
			return e.Str()
		case e.Key() == tcell.KeyCtrlZ:
			s.stop()
			return Resize
		case e.Key() == tcell.KeyCtrlL:
			s.screen.Sync()
			return Resize
		}
		return tcell.KeyNames[e.Key()]
	}
	return ""
}

// stop lets a shell have the terminal until it continues the program.
func (s *Screen) stop() {
	if s.screen.Suspend() != nil {
		return
	}
	_ = syscall.Kill(0, syscall.SIGTSTP)
	_ = s.screen.Resume()
	s.screen.Sync()
}
