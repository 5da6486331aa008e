"""The functions as a table: name, parameters, a sentence, a right expression, and calls.

A call is its arguments and then what it returns. The first half of the calls may be learned from;
the others are kept back.
"""

from __future__ import annotations

from typing import Any

#: The grammars of the expressions, without the names that a function has.
RULES = {
    "numbers": (
        "expression ::= term (operation term){0,2} | value comparison value\n"
        'term ::= value | "(" value operation value ")" | "abs(" value ")"'
        ' | "abs(" value operation value ")" | "min(" names ")" | "max(" names ")"\n'
        'names ::= name ", " name (", " name)?\n'
        'value ::= name | "0" | [1-9] | "10" | "100"\n'
        'operation ::= " + " | " - " | " * " | " // " | " % "\n'
        'comparison ::= " == " | " < " | " > " | " % 2 == "'
    ),
    "lists": (
        "expression ::= number | number operation number | list | number comparison number\n"
        'number ::= "len(" list ")" | "sum(" list ")" | "max(" list ")" | "min(" list ")"'
        ' | name "[" index "]" | "sorted(" name ")[" index "]" | value\n'
        'list ::= name | "sorted(" name ")" | name "[" slice "]" | name " + " name'
        ' | "[" each " for x in " name (" if " test)? "]"\n'
        'each ::= "x" | "x" operation "x" | "x" operation value\n'
        'test ::= "x" comparison value | "x % 2 == " [01]\n'
        'index ::= "0" | "1" | "-1" | "-2"\n'
        'slice ::= "::-1" | "1:" | ":-1" | "::2" | ":" value\n'
        "value ::= [0-9]\n"
        'operation ::= " + " | " - " | " * "\n'
        'comparison ::= " == " | " < " | " > " | " != "'
    ),
    "text": (
        'expression ::= string | string " + " string | number | string comparison string\n'
        'string ::= name method? | name "[" slice "]" | "\'" [a-z .,-] "\'"'
        ' | "\' \'.join(" name ".split()[" slice "])" | name ".split()[" index "]"'
        ' | name ".replace(" letter ", " letter ")"\n'
        'number ::= "len(" name ")" | "len(" name ".split())" | name ".count(" letter ")"\n'
        'method ::= ".upper()" | ".lower()" | ".title()" | ".strip()"\n'
        "letter ::= \"' '\" | \"'-'\" | \"'_'\" | \"'a'\" | \"'e'\" | \"'.'\" | \"''\"\n"
        'index ::= "0" | "1" | "-1"\n'
        'slice ::= "::-1" | "0" | "-1" | "1:" | ":-1" | ":3" | "-3:"\n'
        'comparison ::= " == " | " != "'
    ),
}

Row = tuple[str, str, str, str, list[list[Any]]]
TABLE: dict[str, list[Row]] = {
    "numbers": [
        ("area", "a b", "Return the area of a rectangle.", "a * b",
         [[2, 3, 6], [5, 1, 5], [4, 7, 28], [0, 9, 0], [6, 6, 36], [3, 8, 24], [10, 2, 20]]),
        ("perimeter", "a b", "Return the perimeter of a rectangle.", "2 * (a + b)",
         [[2, 3, 10], [5, 1, 12], [4, 7, 22], [0, 9, 18], [6, 6, 24], [3, 8, 22]]),
        ("last_digit", "n", "Return the last digit of a number.", "n % 10",
         [[27, 7], [130, 0], [9, 9], [41, 1], [688, 8], [72, 2]]),
        ("tens", "n", "Return how many whole tens a number has.", "n // 10",
         [[27, 2], [130, 13], [9, 0], [41, 4], [688, 68], [72, 7]]),
        ("is_even", "n", "Return whether a number is even.", "n % 2 == 0",
         [[4, True], [7, False], [0, True], [13, False], [22, True], [31, False]]),
        ("distance", "a b", "Return how far two numbers are apart.", "abs(a - b)",
         [[2, 9, 7], [9, 2, 7], [-3, 4, 7], [5, 5, 0], [-8, -1, 7], [10, -10, 20]]),
        ("larger", "a b", "Return the larger of two numbers.", "max(a, b)",
         [[2, 9, 9], [9, 2, 9], [-3, -4, -3], [5, 5, 5], [0, 1, 1], [7, -7, 7]]),
        ("smallest", "a b c", "Return the smallest of three numbers.", "min(a, b, c)",
         [[2, 9, 4, 2], [9, 2, 1, 1], [-3, 4, -5, -5], [5, 5, 6, 5], [8, 7, 9, 7], [0, 1, 2, 0]]),
        ("dozen", "n", "Return how many eggs are in n boxes of ten, and two more.", "n * 10 + 2",
         [[1, 12], [3, 32], [0, 2], [7, 72], [10, 102], [4, 42]]),
        ("remaining", "total each", "Return what is left over when it is shared evenly.",
         "total % each",
         [[10, 3, 1], [12, 4, 0], [7, 5, 2], [20, 6, 2], [9, 10, 9], [31, 7, 3]]),
        ("change", "paid price", "Return the change in cents for dollars paid.",
         "paid * 100 - price",
         [[1, 60, 40], [2, 150, 50], [5, 499, 1], [1, 100, 0], [3, 5, 295], [10, 250, 750]]),
        ("square_plus", "n", "Return the square of a number plus the number.", "n * (n + 1)",
         [[2, 6], [5, 30], [0, 0], [3, 12], [10, 110], [-1, 0]]),
    ],
    "lists": [
        ("first", "xs", "Return the first entry.", "xs[0]",
         [[[4, 2, 9], 4], [[7], 7], [[0, 1], 0], [[3, 3, 8], 3], [[9, 5], 9], [[6, 1, 2], 6]]),
        ("last", "xs", "Return the last entry.", "xs[-1]",
         [[[4, 2, 9], 9], [[7], 7], [[0, 1], 1], [[3, 3, 8], 8], [[9, 5], 5], [[6, 1, 2], 2]]),
        ("count", "xs", "Return how many entries there are.", "len(xs)",
         [[[4, 2, 9], 3], [[7], 1], [[], 0], [[3, 3, 8, 1], 4], [[9, 5], 2], [[6, 1, 2], 3]]),
        ("total", "xs", "Return the sum of the entries.", "sum(xs)",
         [[[4, 2, 9], 15], [[7], 7], [[], 0], [[3, 3, 8], 14], [[9, 5], 14], [[6, 1, 2], 9]]),
        ("backwards", "xs", "Return the entries in reverse order.", "xs[::-1]",
         [[[4, 2, 9], [9, 2, 4]], [[7], [7]], [[], []], [[3, 3, 8], [8, 3, 3]],
          [[9, 5], [5, 9]], [[6, 1, 2], [2, 1, 6]]]),
        ("ordered", "xs", "Return the entries from smallest to largest.", "sorted(xs)",
         [[[4, 2, 9], [2, 4, 9]], [[7], [7]], [[], []], [[3, 8, 3], [3, 3, 8]],
          [[9, 5], [5, 9]], [[6, 1, 2], [1, 2, 6]]]),
        ("spread", "xs", "Return the largest entry minus the smallest.", "max(xs) - min(xs)",
         [[[4, 2, 9], 7], [[7], 0], [[0, 1], 1], [[3, 3, 8], 5], [[9, 5], 4], [[6, 1, 2], 5]]),
        ("second_smallest", "xs", "Return the second smallest entry.", "sorted(xs)[1]",
         [[[4, 2, 9], 4], [[7, 1], 7], [[0, 1, 2], 1], [[8, 3, 3], 3], [[9, 5], 9],
          [[6, 1, 2], 2]]),
        ("doubled", "xs", "Return every entry times two.", "[x * 2 for x in xs]",
         [[[4, 2, 9], [8, 4, 18]], [[7], [14]], [[], []], [[3, 3], [6, 6]], [[9, 5], [18, 10]],
          [[6, 1], [12, 2]]]),
        ("evens", "xs", "Return the entries that are even.", "[x for x in xs if x % 2 == 0]",
         [[[4, 2, 9], [4, 2]], [[7], []], [[], []], [[3, 3, 8], [8]], [[9, 5], []],
          [[6, 1, 2], [6, 2]]]),
        ("without_first", "xs", "Return the entries after the first.", "xs[1:]",
         [[[4, 2, 9], [2, 9]], [[7], []], [[0, 1], [1]], [[3, 3, 8], [3, 8]], [[9, 5], [5]],
          [[6, 1, 2], [1, 2]]]),
        ("positive", "xs", "Return how many entries are above zero.",
         "len([x for x in xs if x > 0])",
         [[[4, -2, 9], 2], [[-7], 0], [[], 0], [[3, 0, 8], 2], [[-9, 5], 1], [[6, 1, 2], 3]]),
    ],
    "text": [
        ("shout", "s", "Return the text in capitals.", "s.upper()",
         [["cat", "CAT"], ["Big dog", "BIG DOG"], ["x", "X"], ["no way", "NO WAY"], ["Oh", "OH"],
          ["abc", "ABC"]]),
        ("mirror", "s", "Return the text backwards.", "s[::-1]",
         [["cat", "tac"], ["big dog", "god gib"], ["x", "x"], ["no", "on"], ["Oh", "hO"],
          ["abc", "cba"]]),
        ("words", "s", "Return how many words a text has.", "len(s.split())",
         [["the cat", 2], ["big dog runs", 3], ["x", 1], ["no  way", 2], ["a b c d", 4],
          ["abc", 1]]),
        ("first_word", "s", "Return the first word.", "s.split()[0]",
         [["the cat", "the"], ["big dog runs", "big"], ["x", "x"], ["no  way", "no"],
          ["a b c d", "a"], ["abc", "abc"]]),
        ("last_word", "s", "Return the last word.", "s.split()[-1]",
         [["the cat", "cat"], ["big dog runs", "runs"], ["x", "x"], ["no  way", "way"],
          ["a b c d", "d"], ["abc", "abc"]]),
        ("initial", "s", "Return the first letter.", "s[0]",
         [["cat", "c"], ["Big dog", "B"], ["x", "x"], ["no", "n"], ["Oh", "O"], ["abc", "a"]]),
        ("compound", "first last", "Return both words written as one.", "first + last",
         [["sun", "day", "sunday"], ["tea", "pot", "teapot"], ["a", "b", "ab"],
          ["fire", "fly", "firefly"], ["", "x", "x"], ["book", "case", "bookcase"]]),
        ("count_a", "s", "Return how often the letter a occurs.", "s.count('a')",
         [["cat", 1], ["banana", 3], ["x", 0], ["ala", 2], ["Oh", 0], ["abc", 1]]),
        ("is_palindrome", "s", "Return whether a text is the same backwards.", "s == s[::-1]",
         [["anna", True], ["cat", False], ["x", True], ["noon", True], ["Oh", False],
          ["abc", False]]),
        ("slug", "s", "Return the text with a dash for every blank.", "s.replace(' ', '-')",
         [["the cat", "the-cat"], ["a b c", "a-b-c"], ["x", "x"], ["no way", "no-way"],
          ["Oh dear me", "Oh-dear-me"], ["abc", "abc"]]),
        ("extension", "s", "Return the last three letters.", "s[-3:]",
         [["a.txt", "txt"], ["photo.png", "png"], ["abc", "abc"], ["x.csv", "csv"],
          ["notes.pdf", "pdf"], ["song.mp3", "mp3"]]),
        ("sentence", "s", "Return the text with a full stop at its end.", "s + '.'",
         [["hi", "hi."], ["go on", "go on."], ["x", "x."], ["no", "no."], ["Oh", "Oh."],
          ["abc", "abc."]]),
    ],
}  # fmt: skip
