"""Which language a text is in."""

import pytest

from scorers.language import language_of


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
