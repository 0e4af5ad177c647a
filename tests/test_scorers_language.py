"""Which language a text is in."""

import pytest

from scorers.language import language_of, reads


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Do you deliver on Sundays to my house?", "en"),
        ("Liefern Sie auch am Sonntag und was kostet das für mich?", "de"),
        ("Pouvez-vous me dire comment suivre ma commande dans votre boutique ?", "fr"),
        ("¿Cómo puedo cambiar la dirección de mi pedido en la tienda?", "es"),
        ("退货需要在十四天内提出申请", "zh"),
        ("注文は明日届きます", "ja"),
        ("주문은 내일 도착합니다", "ko"),
        ("Заказ придёт завтра", "ru"),
        ("สั่งซื้อก่อนเที่ยง", "th"),
        ("ok", None),
        ("", None),
        ("1182", None),
    ],
)
def test_language(text, code):
    """A clear text has its language; a short or empty one has none."""
    assert language_of(text) == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Jag har en fråga om min beställning och när den kommer att levereras.", "sv"),
        ("Mam pytanie o moje zamówienie i nie wiem, kiedy się pojawi.", "pl"),
        ("Siparişim hakkında bir sorum var ve ne zaman teslim edileceği çok önemli.", "tr"),
        ("Saya punya pertanyaan tentang pesanan saya dan kapan akan dikirim.", "id"),
        ("Jeg har et spørgsmål om min bestilling, og hvornår den bliver leveret.", None),
    ],
)
def test_other_languages_are_not_read_as_english(text, code):
    """English engines judge no other language, not even where two others are equally likely."""
    assert language_of(text) == code
    assert not reads(text)


@pytest.mark.parametrize(
    "text",
    ["Guns n' Roses is a rock band", "Tennis is a racket sport", "Three strikes is a turkey", "ok"],
)
def test_short_english_is_read(text):
    """Words that English shares with other languages speak for English."""
    assert reads(text)
