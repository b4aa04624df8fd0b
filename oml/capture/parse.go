package capture

import (
	"fmt"
	"net/netip"
	"strings"
)

// parser parses an expression from left to right.
type parser struct {
	words []string
	depth int
}

// depthMax bounds the nesting of an expression.
const depthMax = 50

func parseFilter(text string) (node, error) {
	for _, sign := range []string{"(", ")", "!", "&&", "||"} {
		text = strings.ReplaceAll(text, sign, " "+sign+" ")
	}
	p := &parser{words: strings.Fields(text)}
	tree, err := p.expression()
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("%w: unexpected %q", ErrFilter, p.words[0])
	}
	return tree, err
}

func (p *parser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *parser) next() string {
	word := p.peek()
	if word != "" {
		p.words = p.words[1:]
	}
	return word
}

// expression is terms joined by and, or, which have the same precedence in tcpdump.
func (p *parser) expression() (node, error) {
	left, err := p.term()
	for err == nil {
		var right node
		switch p.peek() {
		case "and", "&&":
			p.next()
			right, err = p.term()
			left = both{left, right}
		case "or", "||":
			p.next()
			right, err = p.term()
			left = either{left, right}
		default:
			return left, nil
		}
	}
	return nil, err
}

func (p *parser) term() (node, error) {
	if p.depth++; p.depth > depthMax {
		return nil, fmt.Errorf("%w: nested too deeply", ErrFilter)
	}
	defer func() { p.depth-- }()
	switch p.peek() {
	case "not", "!":
		p.next()
		of, err := p.term()
		return not{of}, err
	case "(":
		p.next()
		inside, err := p.expression()
		if err == nil && p.next() != ")" {
			err = fmt.Errorf("%w: missing closing parenthesis", ErrFilter)
		}
		return inside, err
	}
	return p.primitive()
}

var protocols = map[string]node{
	"ip": kindIP4, "ip6": kindIP6, "arp": kindARP,
	"tcp": protocol(6, 0), "udp": protocol(17, 0), "sctp": protocol(132, 0),
	"icmp": protocol(1, 4), "icmp6": protocol(58, 6),
}

func (p *parser) primitive() (node, error) {
	word := p.next()
	known := protocols[word]
	switch {
	case known == nil:
		return p.qualified(word)
	case !isQualifier(p.peek()):
		return known, nil
	}
	of, err := p.qualified(p.next())
	return both{known, of}, err
}

func isQualifier(word string) bool {
	switch word {
	case "src", "dst", "host", "net", "port", "portrange":
		return true
	}
	return false
}

// qualified parses a primitive without a protocol, after its first word.
func (p *parser) qualified(word string) (node, error) {
	end := ""
	if word == "src" || word == "dst" {
		end, word = word, p.next()
	}
	switch value := ""; word {
	case "host", "net":
		value = p.next()
		return addressed(word, value, end)
	case "port", "portrange":
		value = p.next()
		low, high, found := strings.Cut(value, "-")
		if found != (word == "portrange") {
			return nil, fmt.Errorf("%w: unexpected %q after %s", ErrFilter, value, word)
		}
		if !found {
			high = low
		}
		return ported(low, high, end)
	case "less", "greater":
		if end != "" {
			break
		}
		n, err := parseNumber(p.next(), 32)
		return size{n, word == "less"}, err
	}
	if word == "" {
		return nil, fmt.Errorf("%w: unexpected end", ErrFilter)
	}
	return nil, fmt.Errorf("%w: unknown word %q", ErrFilter, word)
}

func addressed(word, value, end string) (node, error) {
	prefix, err := netip.ParsePrefix(value)
	if one, e := netip.ParseAddr(value); e == nil && one.Zone() == "" {
		prefix, err = netip.PrefixFrom(one, one.BitLen()), nil
	} else if word == "host" {
		err = ErrFilter
	}
	if err != nil || prefix.Addr().Is4In6() || prefix != prefix.Masked() {
		return nil, fmt.Errorf("%w: %q is not a numeric address or prefix", ErrFilter, value)
	}
	switch end {
	case "src":
		return address(prefix, true), nil
	case "dst":
		return address(prefix, false), nil
	}
	return either{address(prefix, true), address(prefix, false)}, nil
}

func ported(low, high, end string) (node, error) {
	from, err := parseNumber(low, 16)
	if err != nil {
		return nil, err
	}
	to, err := parseNumber(high, 16)
	if err == nil && from > to {
		err = fmt.Errorf("%w: port range %s-%s is descending", ErrFilter, low, high)
	}
	return port(from, to, end), err
}
