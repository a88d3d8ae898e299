"""Texts to train tokenizers on and strings to compare them by.

Everything is a function of this file and of the files that `corpus` is given.
"""

import random

# "All human beings are born free and equal ...", the first article of the
# Universal Declaration of Human Rights, and such sentences, in many scripts.
SENTENCES = [
    "All human beings are born free and equal in dignity and rights.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren; Größe, "
    "Straße, Übermut.",
    "Todos los seres humanos nacen libres e iguales en dignidad y derechos. "
    "¿Qué tal, señor?",
    "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i "
    "swych praw.",
    "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. İstanbul",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và "
    "quyền lợi.",
    "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "Всі люди народжуються вільними і рівними у своїй гідності та правах.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα "
    "δικαιώματα.",
    "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心。",
    "人人生而自由﹐在尊嚴和權利上一律平等。",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて"
    "平等である。カタカナ ﾊﾝｶｸ",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. ١٢٣٤",
    "تمام انسان‌ها آزاد به دنیا می‌آیند و از لحاظ حیثیت و حقوق برابرند. ۱۲۳",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. שָׁלוֹם",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और "
    "समानता प्राप्त है। १२३",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।",
    "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "ყველა ადამიანი იბადება თავისუფალი და თანასწორი.",
    "Բոլոր մարդիկ ծնվում են ազատ ու հավասար։",
    "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
    "មនុស្សទាំងអស់ កើតមកមានសេរីភាព",
    "སེམས་ཅན་ཐམས་ཅད་",
    "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာ",
]

# Parts that strings are made of at random.
PIECES = [
    " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\v", "\f", "    ",
    "a", "I", "the", "The", "don't", "DON'T", "we'll", "it's", "I'd've",
    "'s", "'S", "'\u017f", "'RE", "\u2019s", "0", "7", "42", "1234567890",
    "3.14", "1,000", "x86_64", "_", "__init__", "->", "!=", "...", "\u2026",
    "\u2013", "\u2014", "(", ")", "[", "]", "{}", "#", "//", "\\", "\\n", "<",
    ">", "&amp;", "http://a.b/c?d=e", "e\u0301", "\u00e9", "n\u0303", "\u00f1",
    "a\u0323\u0302", "a\u0302\u0323", "\u1ed9", "\u212b", "\u2126", "\u0344",
    "\u0958", "\u09cb", "\u1100\u1161\u11a8", "\uac01", "\ufb01", "\u00bd",
    "\u2460", "\u2168", "\u00b2", "\uff21\uff11", "\u3000", "\u00a0", "\u2003",
    "\u200b", "\u200d", "\u2028", "\u2029", "\u202f", "\u205f", "\u1680",
    "\u180e", "\u0085", "\ufeff", "\u00ad", "\u202e", "\x00", "\x01", "\x07",
    "\x1b[0m", "\x7f", "\x80", "\x9f", "\ufffd", "\ufffe", "\U0010ffff",
    "\ue000", "\U000e0041", "\U0001f600", "\U0001f44d\U0001f3fd",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea",
    "\u2764\ufe0f", "1\ufe0f\u20e3", "\U0001d554", "\U00010348", "\U00020000",
    "\u2581", "\u2581\u2581", "\u2581a", "\u0120", "\u0120a", "\u010a",
    "\u4e2d", "\u6587", "\u3042", "\u30ab\u3099", "\u30ac", "\u0e01\u0e34",
    "\u0915\u094d\u0937", "\u0627\u0644", "\u05e9\u05c1",
    "<s>", "</s>", "<unk>", "<pad>", "<|endoftext|>", "<|padding|>",
    "<|begin_of_text|>", "<|eot_id|>", "<|endoftext", "<0x41>", "<0xE4>",
    "[INST]", "[/INST]", "[MASK]", "[WORD]", "[SEP]", "<0x", "extraordinary",
]  # fmt: skip


def corpus(paths):
    """The lines of `paths` and the sentences, each of those several times."""
    lines = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines += [line.rstrip("\n") for line in file if line.strip()]
    return lines + SENTENCES * 4


def _mixtures(rng, count):
    """Pieces put together at random."""
    for _ in range(count):
        yield "".join(rng.choice(PIECES) for _ in range(rng.randint(2, 7)))


def _excerpts(rng, count):
    """Pieces of sentences, cut anywhere, some with a space in front."""
    for _ in range(count):
        sentence = rng.choice(SENTENCES)
        begin = rng.randrange(len(sentence))
        text = sentence[begin : begin + rng.randint(1, 24)]
        yield rng.choice(["", "", " ", "\n"]) + text


def _characters(rng, count):
    """Any characters, most of them of few blocks."""
    blocks = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x400, 0x460),
              (0x900, 0x980), (0xE00, 0xE60), (0x2000, 0x2070),
              (0x3040, 0x3100), (0x4E00, 0x4F00), (0xAC00, 0xAD00),
              (0x1F300, 0x1F650), (0x0, 0x20), (0x80, 0xA0),
              (0x10000, 0x10100)]  # fmt: skip
    for _ in range(count):
        block = range(*rng.choice(blocks))
        yield "".join(chr(rng.choice(block)) for _ in range(rng.randint(1, 6)))


def _runs():
    """Runs of one thing, of lengths about powers of two."""
    for part in [" ", "\t", "\n", "a", "0", "\u2581", "e\u0301", "=", "\x00"]:
        for length in [2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 25, 31, 33, 64]:
            yield part * length
            if length < 20:
                yield "x" + part * length + "y"


def strings(seed):
    """A few thousand different strings to compare tokenizers by."""
    rng = random.Random(seed)
    found = ["", *SENTENCES, *PIECES, *(" " + piece for piece in PIECES)]
    found += _runs()
    found += _mixtures(rng, 1000)
    found += _excerpts(rng, 500)
    found += _characters(rng, 400)
    return list(dict.fromkeys(found))
