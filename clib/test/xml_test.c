/* The reader of configurations. */
#include <stdint.h>

#include "check.h"
#include "xml.h"

static char memory[65536], fault[128];

static struct xml_element *parse(const char *text)
{
	snprintf(memory, sizeof memory, "%s", text);
	fault[0] = '\0';
	return xml_parse(memory, fault, sizeof fault);
}

static void good(void)
{
	struct xml_element *root = parse("<?xml version='1.0'?>\n<!-- a <b> -->\n<omlc domain=\"d &amp; &#x20AC;&#65;\" id='a\"b'>\n"
					 "  <collect url = \"file:-\"\n\tencoding=\"text\"><!-- no -->\n<stream mp=\"lin\"/>words</collect >\n<x/></omlc>\n");

	CHECK_SAYING(root != NULL, "%s", fault);
	if (!root)
		return;
	CHECK_TEXT(root->name, "omlc");
	CHECK(root->line == 3);
	CHECK_TEXT(xml_value(root, "domain"), "d & \xe2\x82\xac" "A");
	CHECK_TEXT(xml_value(root, "id"), "a\"b");
	CHECK(xml_value(root, "url") == NULL);
	CHECK_TEXT(xml_value(root->child, "url"), "file:-");
	CHECK_TEXT(xml_value(root->child, "encoding"), "text");
	CHECK(root->child->line == 4);
	CHECK_TEXT(root->child->child->name, "stream");
	CHECK(root->child->child->line == 6);
	CHECK(root->child->child->next == NULL);
	CHECK_TEXT(root->child->next->name, "x");
	xml_free(root);
}

static void bad(void)
{
	static const struct {
		const char *text, *fault;
	} all[] = {
		{"", "line 1: no element"},
		{"<a>\n<b></a>", "line 2: mismatched closing tag"},
		{"<a>\n\n<b>", "line 3: element is not closed"},
		{"<a b='1'", "line 1: malformed start tag"},
		{"<a\nb>", "line 2: attribute without a value"},
		{"<a b=1/>", "line 1: attribute value is not quoted"},
		{"<a b='1'c='2'/>", "line 1: malformed start tag"},
		{"<a b='&nbsp;'/>", "line 1: unknown entity"},
		{"<a b='&#x110000;'/>", "line 1: invalid character reference"},
		{"<a b='&#-1;'/>", "line 1: invalid character reference"},
		{"<a b='&#xD800;'/>", "line 1: invalid character reference"},
		{"<a b='&#x;'/>", "line 1: invalid character reference"},
		{"<a b='&#;'/>", "line 1: invalid character reference"},
		{"<a b='", "line 1: unterminated comment, declaration, tag or value"},
		{"<!-- a", "line 1: unterminated comment, declaration, tag or value"},
		{"<a/>\n<b/>", "line 2: content after the root element"},
		{"</a>", "line 1: no element"},
		{"<>", "line 1: name expected"},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct xml_element *root = parse(all[i].text);

		CHECK_SAYING(root == NULL, "%s", all[i].text);
		CHECK_TEXT(fault, all[i].fault);
		if (root)
			xml_free(root);
	}
}

static void deep(void)
{
	char text[4096];
	size_t at = 0;

	for (int i = 0; i < 500; i++)
		at += (size_t)sprintf(text + at, "<a>");
	CHECK(parse(text) == NULL);
	CHECK_TEXT(fault, "line 1: elements are nested too deeply");
	at = (size_t)sprintf(text, "<a");
	for (int i = 0; i < 30; i++)
		at += (size_t)sprintf(text + at, " a%d='1'", i);
	sprintf(text + at, "/>");
	CHECK(parse(text) == NULL);
	CHECK_TEXT(fault, "line 1: too many attributes");
}

static uint32_t state = 2463534242u;

static uint32_t next(void)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

#ifndef ROUNDS
#define ROUNDS 200000
#endif

/* Random texts of the pieces that matter, in memory that ends where they end, so
 * that the sanitizer sees a byte too far. */
static void random_texts(void)
{
	static const char *const pieces[] = {"<", ">", "/", "/>", "</", "a", "b:c", "=", "\"", "'", " ", "\n", "<!--", "-->", "<?", "?>", "<!",
					     "&amp;", "&", ";", "&#x41;", "&#", "<a>", "</a>", " b='1'", "\x80", "&lt"};
	int parsed = 0;

	for (int i = 0; i < ROUNDS; i++) {
		char text[512] = "", *own;
		size_t at = 0;
		struct xml_element *root;

		for (uint32_t n = next() % 24; n > 0; n--)
			at += (size_t)sprintf(text + at, "%s", pieces[next() % (sizeof pieces / sizeof *pieces)]);
		own = strdup(text);
		root = xml_parse(own, fault, sizeof fault);
		if (root) {
			parsed++;
			xml_free(root);
		}
		free(own);
	}
	CHECK(parsed > 0);
}

int main(void)
{
	RUN(good);
	RUN(bad);
	RUN(deep);
	RUN(random_texts);
	END;
}
