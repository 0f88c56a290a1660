/* Identifiers, hexadecimal text and times; see ids.h. */
#include "common/ids.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/log.h"

#define ID_DIGITS 16

/* getrandom(2) itself: no state that a fork could copy, no file that a confined program cannot
 * open. */
uint64_t
id_new(void)
{
	uint64_t id;
	ssize_t n;

	do {
		n = getrandom(&id, sizeof(id), 0);
		if (n == -1 && errno != EINTR)
			fatal("getrandom");
	} while (n != sizeof(id) || id == 0);
	return id;
}

char *
id_text(char *buf, const char *prefix, uint64_t id)
{
	snprintf(buf, ID_TEXT_MAX, "%s%016llx", prefix, (unsigned long long)id);
	return buf;
}

/* Lower case only: one identifier has one spelling. */
static int
digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

int
id_parse(const char *text, const char *prefix, uint64_t *id)
{
	size_t n = strlen(prefix);
	uint64_t value = 0;
	int i, d;

	if (strncmp(text, prefix, n) != 0)
		return -1;
	text += n;
	for (i = 0; i < ID_DIGITS; i++) {
		if ((d = digit(text[i])) == -1)
			return -1;
		value = value << 4 | (uint64_t)d;
	}
	if (text[ID_DIGITS] != '\0' || value == 0)
		return -1;
	*id = value;
	return 0;
}

void
hex_encode(const uint8_t *in, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";
	size_t i;

	for (i = 0; i < n; i++) {
		*out++ = digits[in[i] >> 4];
		*out++ = digits[in[i] & 15];
	}
	*out = '\0';
}

int
hex_decode(const char *text, uint8_t *out, size_t n)
{
	size_t i;
	int hi, lo;

	for (i = 0; i < n; i++, text += 2) {
		if ((hi = digit(text[0])) == -1 || (lo = digit(text[1])) == -1)
			return -1;
		out[i] = (uint8_t)(hi << 4 | lo);
	}
	return *text == '\0' ? 0 : -1;
}

static int64_t
clock_us(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts) == -1)
		fatal("clock_gettime");
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t
time_wall_us(void)
{
	return clock_us(CLOCK_REALTIME);
}

int64_t
time_boot_us(void)
{
	return clock_us(CLOCK_BOOTTIME);
}

#define DAY_S 86400
#define YEAR_0 INT64_C(-62167219200)     /* seconds of 0000-01-01T00:00:00Z */
#define YEAR_10000 INT64_C(253402300800) /* of the first second too late */

/*
 * Year, month and day of a number of days since 1970-01-01 in the proleptic Gregorian calendar.
 * Years are counted from 1 March, so that the leap day is the last of its year. Not gmtime_r(3),
 * which looks at the time zone's file.
 */
static void
civil(int64_t days, int *year, int *month, int *day)
{
	int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t doe = z - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64_t mp = (5 * doy + 2) / 153;

	*day = (int)(doy - (153 * mp + 2) / 5 + 1);
	*month = (int)(mp < 10 ? mp + 3 : mp - 9);
	*year = (int)(yoe + era * 400 + (*month <= 2));
}

char *
time_text(char *buf, int64_t wall_us)
{
	int64_t s = wall_us / 1000000, us = wall_us % 1000000, days, rest;
	int year, month, day;

	if (us < 0) {
		us += 1000000;
		s--;
	}
	if (s < YEAR_0) {
		s = YEAR_0;
		us = 0;
	} else if (s >= YEAR_10000) {
		s = YEAR_10000 - 1;
		us = 999999;
	}
	days = s / DAY_S;
	rest = s % DAY_S;
	if (rest < 0) {
		rest += DAY_S;
		days--;
	}
	civil(days, &year, &month, &day);
	snprintf(buf, TIME_TEXT_MAX, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", (unsigned)year % 10000,
	    (unsigned)month % 100, (unsigned)day % 100, (unsigned)(rest / 3600) % 24,
	    (unsigned)(rest / 60 % 60), (unsigned)(rest % 60), (unsigned)us);
	return buf;
}

/* Days since 1970-01-01, counted as civil() does. */
static int64_t
days_from_civil(int year, int month, int day)
{
	int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400, yoe = y - era * 400;
	int64_t doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

/* n digits at *p, and what stands behind them; moves behind both. -1 when it is not that. */
static int
number(const char **p, int n, char behind)
{
	int value = 0;

	for (; n > 0; n--, (*p)++) {
		if (**p < '0' || **p > '9')
			return -1;
		value = value * 10 + (**p - '0');
	}
	if (behind != '\0' && *(*p)++ != behind)
		return -1;
	return value;
}

/* ".123456": in microseconds; 0 when there is none. */
static int
fraction(const char **p)
{
	int us = 0, digits = 0;

	if (**p != '.')
		return 0;
	for ((*p)++; **p >= '0' && **p <= '9' && digits < 6; (*p)++, digits++)
		us = us * 10 + (**p - '0');
	if (digits == 0)
		return -1;
	for (; digits < 6; digits++)
		us *= 10;
	return us;
}

int
time_parse(const char *text, int64_t *wall_us)
{
	static const char marks[] = {'-', '-', 'T', ':', ':', '\0'};
	int part[sizeof(marks)], us, y, m, d;
	int64_t days;

	for (size_t i = 0; i < sizeof(marks); i++)
		if ((part[i] = number(&text, i == 0 ? 4 : 2, marks[i])) == -1)
			return -1;
	if ((us = fraction(&text)) == -1 || strcmp(text, "Z") != 0)
		return -1;
	if (part[1] < 1 || part[1] > 12 || part[3] > 23 || part[4] > 59 || part[5] > 59)
		return -1;
	days = days_from_civil(part[0], part[1], part[2]);
	civil(days, &y, &m, &d);
	if (y != part[0] || m != part[1] || d != part[2]) /* the 30th of February */
		return -1;
	*wall_us = ((days * 24 + part[3]) * 3600 + part[4] * 60 + part[5]) * 1000000 + us;
	return 0;
}
