/* As much of XML as configurations need: elements with attributes, comments,
 * declarations, the five entities and numbers of characters. */
#ifndef PILLION_XML_H
#define PILLION_XML_H

#define ATTRIBUTES 16 /* of one element */

struct xml_attribute {
	char *name, *value;
};

struct xml_element {
	char *name;
	int line;
	struct xml_attribute attributes[ATTRIBUTES + 1]; /* a name of NULL ends them */
	struct xml_element *child, *next;
};

/* Reads a text, which is changed and must outlive the result. NULL with a message in
 * fault, which has size bytes, and the line. */
struct xml_element *xml_parse(char *text, char *fault, int size);
/* Value of an attribute, or NULL. */
const char *xml_value(const struct xml_element *element, const char *name);
void xml_free(struct xml_element *element);

#endif
