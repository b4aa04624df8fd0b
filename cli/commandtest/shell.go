package commandtest

import (
	"errors"
	"fmt"
	"strings"
)

// errUnclosed is a quote, a substitution or a here-document that does not end.
var errUnclosed = errors.New("does not end")

// ShellCommands returns the simple commands of a shell script, those in substitutions included,
// as words: quotes are removed, variables stay as they are written, redirections and
// here-documents are left out.
func ShellCommands(script string) ([][]string, error) {
	s := shell{rest: script}
	if err := s.list(0); err != nil {
		return nil, err
	}
	return s.found, nil
}

// shell splits a script. It reads what documents contain; it is no complete parser.
type shell struct {
	rest      string
	found     [][]string
	command   []string
	word      strings.Builder
	inWord    bool
	skipWord  bool     // the next word belongs to a redirection
	documents []string // delimiters of here-documents that begin after this line
}

func (s *shell) next() byte {
	c := s.rest[0]
	s.rest = s.rest[1:]
	return c
}

func (s *shell) add(c byte) {
	s.word.WriteByte(c)
	s.inWord = true
}

func (s *shell) endWord() {
	if s.inWord && !s.skipWord {
		s.command = append(s.command, s.word.String())
	}
	s.skipWord = s.skipWord && !s.inWord
	s.word.Reset()
	s.inWord = false
}

func (s *shell) endCommand() {
	s.endWord()
	if len(s.command) > 0 {
		s.found = append(s.found, s.command)
	}
	s.command, s.skipWord = nil, false
}

// list reads commands up to the parenthesis that closes a substitution, or to the end.
func (s *shell) list(depth int) error {
	for s.rest != "" {
		c := s.next()
		switch {
		case c == ')' && depth > 0:
			s.endCommand()
			return nil
		case c == '#' && !s.inWord:
			_, rest, found := strings.Cut(s.rest, "\n")
			if s.rest = ""; found {
				s.rest = "\n" + rest
			}
		case c == '\n':
			s.endCommand()
			if err := s.skipDocuments(); err != nil {
				return err
			}
		case strings.IndexByte(";|&()", c) >= 0:
			s.endCommand()
		case c == ' ' || c == '\t':
			s.endWord()
		case c == '<' || c == '>':
			if err := s.redirect(c, depth); err != nil {
				return err
			}
		default:
			if err := s.part(c, depth); err != nil {
				return err
			}
		}
	}
	s.endCommand()
	if depth > 0 || len(s.documents) > 0 {
		return fmt.Errorf("read script: a substitution or here-document %w", errUnclosed)
	}
	return nil
}

// part reads what belongs to a word.
func (s *shell) part(c byte, depth int) error {
	switch {
	case c == '\\' && s.rest != "":
		if next := s.next(); next != '\n' {
			s.add(next)
		}
	case c == '\'':
		text, rest, found := strings.Cut(s.rest, "'")
		if !found {
			return fmt.Errorf("read script: the quote before %.20q %w", s.rest, errUnclosed)
		}
		s.word.WriteString(text)
		s.inWord, s.rest = true, rest
	case c == '"':
		return s.quoted(depth)
	case c == '$' && strings.HasPrefix(s.rest, "("):
		s.next()
		return s.substitution(depth)
	default:
		s.add(c)
	}
	return nil
}

func (s *shell) quoted(depth int) error {
	s.inWord = true
	for s.rest != "" {
		c := s.next()
		switch {
		case c == '"':
			return nil
		case c == '\\' && s.rest != "" || c == '$' && strings.HasPrefix(s.rest, "("):
			if err := s.part(c, depth); err != nil {
				return err
			}
		default:
			s.add(c)
		}
	}
	return fmt.Errorf("read script: a quoted word %w", errUnclosed)
}

// substitution reads the commands of one; in the word it is a letter.
func (s *shell) substitution(depth int) error {
	inner := shell{rest: s.rest}
	if err := inner.list(depth + 1); err != nil {
		return err
	}
	s.found, s.rest = append(s.found, inner.found...), inner.rest
	s.add('x')
	return nil
}

// redirect reads what follows an angle bracket; the word after it is not the command's.
func (s *shell) redirect(c byte, depth int) error {
	if number := s.word.String(); number == "1" || number == "2" {
		s.word.Reset()
		s.inWord = false
	}
	s.endWord()
	switch {
	case strings.HasPrefix(s.rest, "("):
		s.next()
		return s.substitution(depth)
	case c == '<' && strings.HasPrefix(s.rest, "<"):
		line, _, _ := strings.Cut(s.rest[1:], "\n")
		fields := strings.Fields(strings.TrimPrefix(line, "-"))
		if len(fields) == 0 {
			return fmt.Errorf("read script: a here-document without a delimiter %w", errUnclosed)
		}
		s.documents = append(s.documents, strings.Trim(fields[0], `'"`))
		s.rest = strings.TrimLeft(s.rest, "<-")
	case strings.HasPrefix(s.rest, ">"), strings.HasPrefix(s.rest, "&"):
		s.next()
	}
	s.skipWord = true
	return nil
}

func (s *shell) skipDocuments() error {
	for len(s.documents) > 0 {
		line, rest, found := strings.Cut(s.rest, "\n")
		if strings.TrimLeft(line, "\t") == s.documents[0] {
			s.documents = s.documents[1:]
		} else if !found {
			return fmt.Errorf("read script: the here-document until %q %w", s.documents[0], errUnclosed)
		}
		s.rest = rest
	}
	return nil
}
