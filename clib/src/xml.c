#include "xml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 16

struct parser {
	char *at;
	int line;
	const char *fault;
};

static void skip_to(struct parser *p, const char *end)
{
	char *found = strstr(p->at, end);

	if (!found) {
		p->fault = "unterminated comment, declaration, tag or value";
		return;
	}
	for (; p->at < found; p->at++)
		p->line += *p->at == '\n';
	p->at = found + strlen(end);
}

static void skip_space(struct parser *p)
{
	for (; *p->at == ' ' || *p->at == '\t' || *p->at == '\r' || *p->at == '\n'; p->at++)
		p->line += *p->at == '\n';
}

static int is_name(char c)
{
	return c == '_' || c == '-' || c == ':' || c == '.' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c & 0x80);
}

/* Parses a name, leaving the character after it; the caller terminates it. */
static char *name(struct parser *p, char **end)
{
	char *begin = p->at;

	while (is_name(*p->at))
		p->at++;
	*end = p->at;
	if (begin == *end)
		p->fault = "name expected";
	return begin;
}

static char *put_utf8(char *to, unsigned long c)
{
	if (c < 0x80) {
		*to++ = (char)c;
	} else if (c < 0x800) {
		*to++ = (char)(0xC0 | c >> 6);
		*to++ = (char)(0x80 | (c & 63));
	} else if (c < 0x10000) {
		*to++ = (char)(0xE0 | c >> 12);
		*to++ = (char)(0x80 | (c >> 6 & 63));
		*to++ = (char)(0x80 | (c & 63));
	} else {
		*to++ = (char)(0xF0 | c >> 18);
		*to++ = (char)(0x80 | (c >> 12 & 63));
		*to++ = (char)(0x80 | (c >> 6 & 63));
		*to++ = (char)(0x80 | (c & 63));
	}
	return to;
}

static int is_digit(char c, int hex)
{
	return (c >= '0' && c <= '9') || (hex && (c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* Replaces entities in place: none is shorter than its replacement. */
static void replace_entities(struct parser *p, char *text)
{
	static const struct {
		const char *name;
		char plain;
	} known[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
	char *to = text;

	while (*text) {
		size_t i = 0;

		if (*text != '&') {
			*to++ = *text++;
			continue;
		}
		while (i < 5 && strncmp(text, known[i].name, strlen(known[i].name)) != 0)
			i++;
		if (i < 5) {
			*to++ = known[i].plain;
			text += strlen(known[i].name);
		} else if (text[1] == '#') {
			char *end;
			int hex = text[2] == 'x';
			unsigned long c = strtoul(text + 2 + hex, &end, hex ? 16 : 10);

			if (!is_digit(text[2 + hex], hex) || *end != ';' || c == 0 || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) {
				p->fault = "invalid character reference";
				return;
			}
			to = put_utf8(to, c);
			text = end + 1;
		} else {
			p->fault = "unknown entity";
			return;
		}
	}
	*to = '\0';
}

/* name = "value" */
static void attribute(struct parser *p, struct xml_element *e, int number)
{
	char *end, quote;

	if (number == ATTRIBUTES) {
		p->fault = "too many attributes";
		return;
	}
	e->attributes[number].name = name(p, &end);
	skip_space(p);
	if (p->fault || *p->at != '=') {
		p->fault = p->fault ? p->fault : "attribute without a value";
		return;
	}
	*end = '\0';
	p->at++;
	skip_space(p);
	quote = *p->at;
	if (quote != '"' && quote != '\'') {
		p->fault = "attribute value is not quoted";
		return;
	}
	e->attributes[number].value = ++p->at;
	skip_to(p, quote == '"' ? "\"" : "'");
	if (p->fault)
		return;
	p->at[-1] = '\0';
	replace_entities(p, e->attributes[number].value);
}

/* Skips to the next element; 0 at "</" or the end. */
static int find_element(struct parser *p)
{
	while (!p->fault && *p->at) {
		if (*p->at != '<') {
			p->line += *p->at++ == '\n'; /* text is ignored */
		} else if (strncmp(p->at, "<!--", 4) == 0) {
			p->at += 4;
			skip_to(p, "-->");
		} else if (strncmp(p->at, "<?", 2) == 0) {
			skip_to(p, "?>");
		} else if (strncmp(p->at, "<!", 2) == 0) {
			skip_to(p, ">");
		} else {
			return p->at[1] != '/';
		}
	}
	return 0;
}

static struct xml_element *element(struct parser *p, int depth);

/* Parses the children of an element, and its end tag. */
static void content(struct parser *p, struct xml_element *e, int depth)
{
	struct xml_element **last = &e->child;
	char *begin, *end;

	while (find_element(p)) {
		*last = element(p, depth + 1);
		if (p->fault)
			return;
		last = &(*last)->next;
	}
	if (p->fault || *p->at == '\0') {
		p->fault = p->fault ? p->fault : "element is not closed";
		return;
	}
	p->at += 2;
	begin = name(p, &end);
	if (!p->fault && (strlen(e->name) != (size_t)(end - begin) || strncmp(begin, e->name, strlen(e->name)) != 0))
		p->fault = "mismatched closing tag";
	skip_to(p, ">");
}

/* At "<". */
static struct xml_element *element(struct parser *p, int depth)
{
	struct xml_element *e = calloc(1, sizeof *e);
	char *end;
	int n = 0, closed = 0, opened = 0;

	if (!e || depth > DEPTH) {
		p->fault = "elements are nested too deeply";
		return e;
	}
	e->line = p->line;
	p->at++;
	e->name = name(p, &end);
	while (!p->fault && !closed && !opened) {
		char *before = p->at;

		skip_space(p);
		if (*p->at == '>') {
			opened = 1;
			p->at++;
		} else if (p->at[0] == '/' && p->at[1] == '>') {
			closed = 1;
			p->at += 2;
		} else if (*p->at == '\0' || p->at == before) {
			p->fault = "malformed start tag";
		} else {
			attribute(p, e, n++);
		}
	}
	*end = '\0';
	if (opened && !p->fault)
		content(p, e, depth);
	return e;
}

struct xml_element *xml_parse(char *text, char *fault, int size)
{
	struct parser p = {.at = text, .line = 1};
	struct xml_element *root = NULL;

	if (find_element(&p))
		root = element(&p, 0);
	else if (!p.fault)
		p.fault = "no element";
	if (!p.fault && (find_element(&p) || *p.at))
		p.fault = "content after the root element";
	if (!p.fault)
		return root;
	snprintf(fault, (size_t)size, "line %d: %s", p.line, p.fault);
	if (root)
		xml_free(root);
	return NULL;
}

const char *xml_value(const struct xml_element *e, const char *wanted)
{
	for (int i = 0; e->attributes[i].name; i++)
		if (strcmp(e->attributes[i].name, wanted) == 0)
			return e->attributes[i].value;
	return NULL;
}

void xml_free(struct xml_element *e)
{
	while (e) {
		struct xml_element *next = e->next;

		if (e->child)
			xml_free(e->child);
		free(e);
		e = next;
	}
}
