/* The subset of XML that configurations need: elements with attributes, comments,
 * declarations, the five entities and character references. */
#ifndef PILLION_XML_H
#define PILLION_XML_H

#define ATTRIBUTES 16 /* maximum of an element */

struct xml_attribute {
	char *name, *value;
};

struct xml_element {
	char *name;
	int line;
	struct xml_attribute attributes[ATTRIBUTES + 1]; /* terminated by a NULL name */
	struct xml_element *child, *next;
};

/* Parses a text, which it modifies and which must outlive the result. On an error it
 * returns NULL and writes a message with the line to fault, which has size bytes. */
struct xml_element *xml_parse(char *text, char *fault, int size);
/* Value of an attribute, or NULL. */
const char *xml_value(const struct xml_element *element, const char *name);
void xml_free(struct xml_element *element);

#endif
